# Libraries of test/modules, which imitate other libraries in the server or
# simulate faults, and changed builds of zklock.

package Module;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(build_module build_zklock changed_source);

# Builds a library, and returns its path for LOAD and CREATE FUNCTION.
sub build_module
{
	my ($name) = @_;
	my $library = PostgreSQL::Test::Utils::tempdir() . "/$name";

	_compile($library, dirname(__FILE__) . "/../modules/$name.c");
	return $library;
}

my $src = dirname(__FILE__) . '/../../src';

# Returns the text of a source file of zklock after a function has changed it, in $_, and has
# returned that it did.
sub changed_source
{
	my ($source, $change) = @_;
	local $_ = slurp_file("$src/$source");

	$change->() or die "$source is not as expected\n";
	return $_;
}

# Builds zklock with these options of the compiler, and with changed source files: for
# each, a function changes the text in $_, and returns whether it has. From then on, the node
# uses this library instead of the installed one.
sub build_zklock
{
	my ($node, $options, %change) = @_;
	my $dir = $node->basedir;
	my @parts;

	# All others are as they were built, unless that was in another directory.
	for my $source (map { s/^\Q$src\E\///r } glob("$src/*/*.c"))
	{
		my $object = "$src/$source" =~ s/c$/o/r;

		if (!$change{$source})
		{
			push(@parts, -e $object ? $object : "$src/$source");
			next;
		}
		push(@parts, "$dir/" . basename($source));
		unlink($parts[-1]);    # of an earlier build
		append_to_file($parts[-1], changed_source($source, delete($change{$source})));
	}
	die "there is no @{[ keys %change ]}\n" if %change;
	_compile("$dir/zklock", @$options, "-I$src", @parts,
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
