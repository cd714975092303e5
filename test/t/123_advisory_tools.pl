# Advisory locks across two servers: the statements of docs/advisory-locks.md, and tools
# for migrations as they are, ActiveRecord's and node-pg-migrate.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use Child;
use Docs;
use FindBin;
use Once;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

my $page = 'docs/advisory-locks.md';
my $drivers = "$FindBin::RealBin/../drivers";
my $tmp = PostgreSQL::Test::Utils::tempdir_short();
my $zk = ZkServer->new->start;
my @nodes = map { new_node($_, $zk->hosts, shared_preload_libraries => 'zklock') } qw(a b);

sub session_in
{
	my ($node, $database) = @_;
	my $session = ZkTest->new($node);

	$session->query("\\connect $database");
	return $session;
}

# The number of nodes of locks
sub ephemerals
{
	return ($zk->four_letter('mntr') =~ /^zk_ephemerals_count\t(\d+)/m)[0];
}

# The statements of the page. The administrator's run on each server.
for my $node (@nodes)
{
	$node->safe_psql('postgres', $_) for 'CREATE DATABASE shop', 'CREATE ROLE maintenance LOGIN';
}
my %sessions = ('the administrator' => [ map { session_in($_, 'shop') } @nodes ]);
my $count = 'SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()';
my @blocks = sql_blocks($page);
my @moves = sql_blocks($page, 'Move a running system');

cmp_ok(scalar @blocks, '>', 8, 'the page has statements');
is(scalar @moves, 2, '... two blocks of which move a running system');
for my $block (grep { my $in = $_; !grep { $_->{statements}[0][0] eq $in->{statements}[0][0] } @moves } @blocks)
{
	my $as = $block->{as};

	$sessions{$as} //= [ session_in($as eq 'a' ? $nodes[0] : $nodes[1], 'shop') ];
	for my $session (@{ $sessions{$as} })
	{
		my $held = ephemerals() - $session->query($count);

		run_documented($session, $_) for @{ $block->{statements} };
		$session->query('SELECT zk_lock_release_all()') if $as eq 'the administrator';
		$held += $session->query($count);

		# Neither a release nor the end of a try waits for ZooKeeper, and the other server's
		# session comes next.
		wait_until('ZooKeeper has the nodes of locks that are held', sub { ephemerals() <= $held });
	}
}
$_->close for map { @$_ } values %sessions;

# Where the library is not preloaded, the first queries that see whether it works say so.
my $local = new_node('local', $zk->hosts, OWN_SESSION);
$local->safe_psql('postgres', $_)
  for 'CREATE DATABASE shop', q(ALTER DATABASE shop SET zklock.advisory_locks = 'cluster');
$local->safe_psql('shop', 'CREATE EXTENSION zklock_advisory CASCADE');
my $looker = session_in($local, 'shop');
my ($see, $why) = map { $_->{statements} } sql_blocks($page, 'See that it works');
is($looker->query('SELECT pg_try_advisory_lock(42)'), 't', 'a server that has not preloaded the library takes its own lock');
is($looker->query($_->[0]), '', "... which shows: $_->[0]") for @$see;
is_deeply([ map { $looker->query($_->[0]) } @$why ], [ 'f', 'cluster' ], '... and the cause is found');
$looker->close;

# What guards work of one server is in the database whose setting is another one.
{
	local $ENV{PGUSER} = 'maintenance';
	my @local = map { session_in($_, 'shop') } @nodes;

	is($_->query('SELECT pg_try_advisory_lock(42)'), 't', "a role with 'server' has the lock of its server")
	  for @local;
	$_->close for @local;
}

# A system moves: at no time do two programs have the lock.
$_->safe_psql('shop', 'ALTER DATABASE shop RESET zklock.advisory_locks') for @nodes;
my $try = 'SELECT pg_try_advisory_lock(42)';
my @old = map { session_in($_, 'shop') } @nodes;
my @admins = map { session_in($_, 'shop') } @nodes;
my ($hold, $change) = map { $_->{statements} } @moves;

is($old[0]->query($try), 't', 'a program has the lock of a server');
$admins[0]->start($hold->[0][0]);
run_documented($admins[1], $hold->[0]);
is($old[1]->query($try), 'f', '... and the administrator has that of the other');
is($old[0]->query('SELECT pg_advisory_unlock(42)'), 't', 'the program releases it');
is($admins[0]->result, '', '... and the administrator has both');
run_documented($admins[0], $_) for @$change;
my @new = map { session_in($_, 'shop') } @nodes;
is($new[0]->query($try), 't', 'a program takes it across servers, on the server that is changed');
is($_->query($try), 'f', '... and no other program has it') for $old[1], $new[1];
like($old[0]->query($try), qr/terminating connection|server closed/, '... the old one is gone');
run_documented($admins[1], $_) for @$change;
$new[1] = session_in($nodes[1], 'shop');
$_->close for @admins;
is($new[1]->query($try), 'f', '... nor when both servers are changed');
is($new[0]->query('SELECT pg_advisory_unlock(42)'), 't', 'the program releases the lock');
wait_until('the lock is free', sub { $new[1]->query($try) eq 't' });
$_->close for @old, @new;

# Two servers that have nothing to do with each other, and the same ZooKeeper
$nodes[1]->safe_psql('shop', q(ALTER DATABASE shop SET zklock.advisory_path = '/advisory/shop_two'));
my @unrelated = map { session_in($_, 'shop') } @nodes;
is($_->query($try), 't', 'databases with different paths do not exclude each other') for @unrelated;
$_->close for @unrelated;

# Starts a program on a server. Its migration creates a file, and waits for another.
sub start_tool
{
	my ($node, $database, $command, $name) = @_;
	local @ENV{qw(ZKLOCK_RUNS ZKLOCK_GO)} = ("$tmp/$name.runs", "$tmp/go");

	return Child->start("$tmp/$name.log", @$command, $node->host, $node->port, $database,
		"$tmp/migrations");
}

# Has a tool migrate two databases at once, and returns whether both do so at the same
# time, or what the second says.
sub migrate_twice
{
	my ($one, $two, $database, $command) = @_;
	my ($first, $second) = ("$tmp/$database.1.runs", "$tmp/$database.2.runs");
	my $runs = start_tool($one, $database, $command, "$database.1");
	wait_until('the first migration runs', sub { $runs->check; -e $first });
	my $other = start_tool($two, $database, $command, "$database.2");
	wait_until('the second one runs, or ends', sub { -e $second || !$other->is_running });
	my $both = -e $second;

	append_to_file("$tmp/go", '');
	$runs->finish($Wait::timeout);
	if ($both)
	{
		$other->finish($Wait::timeout);
	}
	elsif ($one != $two)
	{
		wait_until('the lock is free', sub { ephemerals() == 0 });
		start_tool($two, $database, $command, "$database.3")->finish($Wait::timeout);
		die "the second migration did not run later\n" if !-e "$tmp/$database.3.runs";
	}
	unlink("$tmp/go") or die "$tmp/go: $!\n";
	return $both ? 'both run' : slurp_file("$tmp/$database.2.log");
}

# Tries a tool with one server, with two, and with two and the setting.
sub try_tool
{
	my ($tool, $refused, @command) = @_;
	my ($a, $b) = @nodes;

	for my $case (qw(one two across))
	{
		my $database = "$tool\_$case";

		for my $node (@nodes)
		{
			$node->safe_psql('postgres', "CREATE DATABASE $database");
			next if $case ne 'across';
			$node->safe_psql($database, "CREATE EXTENSION zklock_advisory CASCADE;
				ALTER DATABASE $database SET zklock.advisory_locks = 'cluster'");
		}
	}
	like(migrate_twice($a, $a, "$tool\_one", \@command), $refused,
		"$tool: one of two migrations of a server is refused");
	is(migrate_twice($a, $b, "$tool\_two", \@command), 'both run',
		'... both run on two servers');
	like(migrate_twice($a, $b, "$tool\_across", \@command), $refused,
		'... one is refused with advisory locks across servers, and runs later');
	return;
}

mkdir("$tmp/migrations") or die "migrations: $!\n";
append_to_file("$tmp/migrations/1_wait.rb", <<'EORB');
class Wait < ActiveRecord::Migration[ActiveRecord::Migration.current_version]
  def up
    File.write(ENV['ZKLOCK_RUNS'], '')
    sleep(0.02) until File.exist?(ENV['ZKLOCK_GO'])
  end
end
EORB
try_tool('activerecord', qr/ActiveRecord::ConcurrentMigrationError/, 'ruby', "$drivers/migrate.rb");
unlink("$tmp/migrations/1_wait.rb") or die "1_wait.rb: $!\n";

# npm installs node-pg-migrate, if it can.
sub install_from_npm
{
	my ($path) = @_;
	local $ENV{npm_config_cache} = "$path.cache";

	mkdir($path) or die "$path: $!\n";
	if (!eval { Child->run("$path/log", $Wait::timeout, qw(npm install --no-audit --no-fund --prefix),
			$path, 'node-pg-migrate@7', 'pg@8'); 1 })
	{
		append_to_file("$path/failed", $@ . (-e "$path/log" ? slurp_file("$path/log") : ''));
	}
	return;
}
SKIP:
{
	skip 'there is no npm', 3 if !grep { -x "$_/npm" } split(/:/, $ENV{PATH});
	my $npm = made_once('npm', \&install_from_npm);
	skip 'npm cannot install node-pg-migrate: ' . (slurp_file("$npm/failed") =~ s/\n/ /gr), 3
	  if -e "$npm/failed";

	append_to_file("$tmp/migrations/1_wait.js", <<'EOJS');
const fs = require('fs');
exports.up = async () => {
	fs.writeFileSync(process.env.ZKLOCK_RUNS, '');
	while (!fs.existsSync(process.env.ZKLOCK_GO))
		await new Promise((resolve) => setTimeout(resolve, 20));
};
EOJS
	local $ENV{NODE_PATH} = "$npm/node_modules";
	try_tool('node_pg_migrate', qr/Another migration is already running/, 'node', "$drivers/migrate.js");
}

done_testing();
