# Libraries of test/modules, which do what others may do beside zklock.

package Module;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(build_module);

# Builds one and returns its path, as LOAD and CREATE FUNCTION take it.
sub build_module
{
	my ($name) = @_;
	my $source = dirname(__FILE__) . "/../modules/$name.c";
	my $library = "$PostgreSQL::Test::Utils::tmp_check/$name";
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';

	chomp(my $headers = `$pg_config --includedir-server`);
	system_or_bail('cc', '-shared', '-fPIC', "-I$headers", '-o',
		"$library.so", $source);
	return $library;
}

1;
