# Libraries of test/modules, which imitate other libraries in the server or
# simulate faults, and builds of zklock with other options.

package Module;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(build_module build_zklock);

# Builds a library, and returns its path for LOAD and CREATE FUNCTION.
sub build_module
{
	my ($name) = @_;
	my $library = PostgreSQL::Test::Utils::tempdir() . "/$name";

	_compile($library, dirname(__FILE__) . "/../modules/$name.c");
	return $library;
}

# Builds zklock with these options of the compiler, which concern one source file. From
# then on, the node uses this library instead of the installed one.
sub build_zklock
{
	my ($node, $source, @options) = @_;
	my $src = dirname(__FILE__) . '/../../src';
	my $dir = $node->basedir;

	# All others are as they were built, unless that was in another directory.
	my @parts = map { my $object = s/c$/o/r; /\/\Q$source\E$/ || !-e $object ? $_ : $object }
	  glob("$src/*/*.c");

	_compile("$dir/zklock", @options, "-I$src", @parts,
		qw(-lzookeeper_mt -lpthread -lrt));
	$node->safe_psql('postgres', qq(
		UPDATE pg_proc SET probin = '$dir/zklock' WHERE probin = '\$libdir/zklock'));
	$node->append_conf('postgresql.conf', qq(
		shared_preload_libraries = '$dir/zklock'
		dynamic_library_path = '$dir:\$libdir'));
	$node->restart;
	return;
}

sub _compile
{
	my ($library, @rest) = @_;
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';

	chomp(my $headers = `$pg_config --includedir-server`);
	system_or_bail('cc', '-shared', '-fPIC', "-I$headers", '-o', "$library.so",
		@rest);
	return;
}

1;
