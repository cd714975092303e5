# A build in another directory than that of the sources, as packagers do it,
# and its make installcheck against a running server. A volume for PostgreSQL 18.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use Child;
use File::Spec;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

my $top = File::Spec->rel2abs("$FindBin::RealBin/../..");
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my @make =
  ('env', '-u', 'MAKEFLAGS', 'make', "PG_CONFIG=$pg_config", 'with_llvm=no');

# Returns the symbols that a library exports, except those of sanitizers.
sub symbols
{
	my ($library) = @_;
	my ($stdout, $stderr) = run_command([ 'nm', '-D', '--defined-only', $library ]);

	return [ sort grep { !/^__/ } map { (split)[2] } split(/\n/, $stdout) ];
}

chomp(my $pkglibdir = `"$pg_config" --pkglibdir`);

my @runners = ('regress', 'isolation_regress');

# Build in clean copies: with VPATH, make would take existing object files for
# sources.
mkdir("$dir/$_") or die "$dir/$_: $!\n" for qw(sources build);
for my $step (
	[
		'cp', '-R',
		map({ "$top/$_" } qw(Makefile zklock.control zklock_advisory.control
			expected sql src test)),
		"$dir/sources"
	],
	[ @make, '-C', "$dir/sources", 'clean' ])
{
	Child->run("$dir/log", $Wait::timeout, @$step);
}
push(@make, '-C', "$dir/build", '-f', "$dir/sources/Makefile",
	"VPATH=$dir/sources");

# Without optimization: it takes half of the time of the compiler.
Child->run("$dir/log", $Wait::timeout, @make, 'COPT=-O0 -g0 -U_FORTIFY_SOURCE');
my $symbols = symbols("$dir/build/zklock.so");
cmp_ok(@$symbols, '>', 20, 'the library exports symbols');
is_deeply($symbols, symbols("$pkglibdir/zklock.so"),
	'... the same ones as the installed library');

# There are assertions where PostgreSQL has its own, and nothing of them elsewhere.
my $assertion = qr/__assert_fail|ExceptionalCondition|is_sound/;
chomp(my $includedir = `"$pg_config" --includedir-server`);
my ($macros) = run_command(
	[ 'cc', "-I$includedir", '-E', '-dM', '-include', 'pg_config.h', '-x', 'c', '/dev/null' ]);
is( scalar(slurp_file("$dir/build/zklock.so") =~ $assertion),
	scalar($macros =~ /^#define USE_ASSERT_CHECKING 1$/m),
	'the library has assertions if PostgreSQL has them');
Child->run(
	"$dir/log", $Wait::timeout, 'cc', "-I$top/src", '-DUSE_ASSERT_CHECKING=1', '-c', '-o',
	"$dir/gate.o", "$top/src/protocol/gate.c");
like(slurp_file("$dir/gate.o"), $assertion, '... which would be found');

my $hosts = ZkServer->new->start->hosts;
my $node = new_node('main', $hosts);
my %installcheck = (
	PGHOST => $node->host,
	PGPORT => $node->port,
	PGUSER => $node->safe_psql('postgres', 'SELECT CURRENT_USER'));
Child->run(
	"$dir/log", $Wait::timeout,
	'env', map({ "$_=$installcheck{$_}" } keys %installcheck),
	@make, 'installcheck', 'TAP_TESTS=');
my $log = slurp_file("$dir/log");
my @passed = $log =~ /^# ?All \d+ tests passed|^ All \d+ tests passed/mg;
is(scalar(@passed), scalar(@runners),
	"installcheck runs the SQL tests in the build directory: @runners");

# If a module that the TAP tests need is missing, installcheck runs the other
# tests only.
append_to_file("$dir/perl", <<"EOSH");
#!/bin/sh
case "\$*" in *IPC::Run*) exit 1; esac
exec '$^X' "\$@"
EOSH
chmod(0755, "$dir/perl");

my ($all) = run_command([ @make, '-n', 'installcheck' ]);
my ($part, $complaint) = run_command(
	[ 'env', "PATH=$dir:$ENV{PATH}", @make, '-n', 'installcheck' ]);
my $prove = qr/\bprove .*\.pl$/m;
like($all, $prove, 'installcheck runs the TAP tests');
unlike($part, $prove, 'installcheck does not run the TAP tests if a module is missing');
like($part, qr/\/pg_$_ /, "... but runs pg_$_") for @runners;
is($complaint, "The TAP tests are left out. For them, this is missing:
  the Perl module IPC::Run", '... and names the missing module');

# A wrong PG_CONFIG is named, and nothing is installed because of it.
my $wrong = "$dir/no_such/pg_config";
my (undef, $said) = run_command([ @make, "PG_CONFIG=$wrong" ]);
like($said, qr/^zklock needs .* found through \Q$wrong\E\.\n  \Q$wrong\E cannot be run\.$/m,
	'make names a pg_config that does not exist');
is_deeply(
	[ run_command([ 'env', "PG_CONFIG=$wrong", "$top/test/setup", 'build' ]) ],
	[ '', "PG_CONFIG=$wrong cannot be run." ],
	'... and so does the setup');

# A volume: a server finds the library, ZooKeeper's client and the extensions in it.
my $volume = "$dir/volume";
my $client = qr{\Q$volume\E/lib/libzookeeper_mt};
Child->run("$dir/log", $Wait::timeout, @make, 'volume', "VOLUME=$volume");
like((run_command([ 'ldd', "$volume/lib/zklock.so" ]))[0],
	qr/ => $client/, "the volume's library takes its own client");
ok(!-e "$dir/build/zklock.so", '... and is not left to be installed elsewhere');

SKIP:
{
	skip 'no extension_control_path before PostgreSQL 18', 2
	  if $node->safe_psql('postgres', 'SHOW server_version_num') < 180000;

	my $other = new_node(
		'volume', $hosts,
		shared_preload_libraries => 'zklock',
		extension_control_path => "$volume/share",
		dynamic_library_path => "$volume/lib");
	my ($granted, $maps) = split(/\n/,
		$other->safe_psql('postgres', "CREATE EXTENSION zklock_advisory;
			SELECT zk_lock_acquire('/volume');
			SELECT pg_read_file('/proc/self/maps')"), 2);
	is($granted, 't', 'a server takes a lock with the extension in the volume');
	my %loaded = map { $_ => 1 } $maps =~ m{(\S*/(?:zklock|libzookeeper_mt)\.so)}g;
	is_deeply(
		[ sort keys %loaded ],
		[ "$volume/lib/libzookeeper_mt.so", "$volume/lib/zklock.so" ],
		'... and has no other library');
}

# Numbers of different types are neither compared nor assigned to each other.
my @types = slurp_file("$top/src/protocol/numbers.h") =~ /^\} (\w+);/mg;
cmp_ok(@types, '>', 4, 'there are types of numbers');

sub compiles
{
	my ($result, $arguments, $expression) = @_;
	my $file = "$dir/numbers.c";

	append_to_file($file, qq{#include "protocol/numbers.h"
		static inline $result function($arguments) { return $expression; }\n});
	my $compiles =
	  run_log([ 'gcc', '-fsyntax-only', "-I$top/src", qw(-Wall -Wextra -Werror), $file ]);
	unlink($file) or die "$file: $!\n";
	return $compiles ? 1 : 0;
}

for my $one (@types)
{
	is_deeply(
		[ map { compiles('int', "$one a, $_ b", 'a == b') } @types ],
		[ map { $_ eq $one ? 1 : 0 } @types ],
		"$one is compared with its own type only");
	is_deeply(
		[ map { compiles($one, "$_ b", 'b') } @types ],
		[ map { $_ eq $one ? 1 : 0 } @types ],
		"... and assigned to it only");
}

done_testing();
