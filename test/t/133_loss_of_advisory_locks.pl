# zklock.on_loss = 'auto': the loss of a lock disconnects the client if the session has a lock
# of session scope that functions for advisory locks have taken, and cancels otherwise.

use strict;
use warnings;

use PgBouncer;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);

use constant TIMEOUT => 8;
my $node = new_node(
	'main', $proxy->hosts,
	log_line_prefix => '%p ',
	shared_preload_libraries => 'zklock',
	max_connections => 100,
	'zklock.advisory_locks' => 'cluster',
	'zklock.session_timeout' => TIMEOUT . 's');
$node->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
my $admin = ZkTest->new($node);

sub are_alive
{
	my $pids = join(',', map { $_->{session}->pid } @_);

	return $admin->query("SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pids)");
}

sub restore
{
	$proxy->accept;
	wait_until('locks can be taken again',
		sub { $admin->query(q(SELECT zk_lock_acquire('/probe', '5s'), zk_lock_release('/probe'))) eq 't|t' });
	return;
}

# What sessions have done: whose clients are disconnected, and whose are not. Each has a key K.
my $other = q(SELECT zk_lock_acquire('/other/K'));
my %ends = (
	'a lock' => 'SELECT pg_advisory_lock(K)',
	'a shared lock' => 'SELECT pg_advisory_lock_shared(1, K)',
	'a lock that was tried' => 'SELECT pg_try_advisory_lock(K)',
	q(a lock of 'both') => q(SET zklock.advisory_locks = 'both'; SELECT pg_advisory_lock(K)),
	q(a lock by the extension's name) =>
	  q(SET zklock.advisory_locks = 'server'; SELECT zk_advisory.pg_advisory_lock(K)),
	'a lock, in a transaction' => 'BEGIN; SELECT pg_advisory_lock(K)',
	'a lock, in a failed transaction' => 'BEGIN; SELECT pg_advisory_lock(K); SELECT 1 / 0',
	'a lock of a rolled back savepoint' => 'BEGIN; SAVEPOINT s; SELECT pg_advisory_lock(K); ROLLBACK TO s',
	'a lock after another one' => "$other; SELECT pg_advisory_lock(K)",
	'another lock after it' => "SELECT pg_advisory_lock(K); $other",
	'one of two that it had' => 'SELECT pg_advisory_lock(K), pg_advisory_lock(K), pg_advisory_unlock(K)',
	'a lock that was one of a transaction' =>
	  'BEGIN; SELECT pg_advisory_xact_lock(K); SELECT pg_advisory_lock(K); COMMIT',
	'a lock whose path it had' =>
	  q(SELECT zk_lock_acquire('/pg_advisory/postgres/K', mode => 'write'); BEGIN; SELECT pg_advisory_lock(K)),
	'the setting made since' =>
	  q(SET zklock.on_loss = 'cancel'; SELECT pg_advisory_lock(K); RESET zklock.on_loss),
	q('disconnect' and no such lock) => "SET zklock.on_loss = 'disconnect'; $other");
my %stays = (
	'no lock' => 'SELECT 1',
	'another lock' => $other,
	'another lock at the path of a key' => q(SELECT zk_lock_acquire('/pg_advisory/postgres/K', mode => 'write')),
	'another lock at that path, and a lock of a transaction' =>
	  q(SELECT zk_lock_acquire('/pg_advisory/postgres/K', mode => 'write'); BEGIN; SELECT pg_advisory_xact_lock(K)),
	'another lock at that path, and a lock of a transaction before' =>
	  q(SELECT zk_lock_acquire('/pg_advisory/postgres/K', mode => 'write'); SELECT pg_advisory_xact_lock(K)),
	'a lock of a transaction' => 'BEGIN; SELECT pg_advisory_xact_lock(K)',
	'a lock of a transaction, and another one' => "$other; BEGIN; SELECT pg_advisory_xact_lock(K)",
	'a lock of a transaction that was one of the session' =>
	  'BEGIN; SELECT pg_advisory_lock(K), pg_advisory_xact_lock(K), pg_advisory_unlock(K)',
	'a lock of a rolled back savepoint' =>
	  "$other; BEGIN; SAVEPOINT s; SELECT pg_advisory_xact_lock(K); ROLLBACK TO s",
	'a released lock' => "$other; SELECT pg_advisory_lock(K), pg_advisory_unlock(K)",
	'released locks' => "$other; SELECT pg_advisory_lock(K), pg_advisory_lock_shared(1, K); SELECT pg_advisory_unlock_all()",
	q(a lock of 'server') =>
	  "$other; SET zklock.advisory_locks = 'server'; SELECT pg_advisory_lock(K)",
	q('cancel') => q(SET zklock.on_loss = 'cancel'; SELECT pg_advisory_lock(K)));
my $pool;

$ENV{PATH} .= ':/usr/sbin';
$pool = PgBouncer->new($node, pool_mode => 'session')
  if grep { -x "$_/pgbouncer" } split(/:/, $ENV{PATH});

# Begins these sessions, and some behind the pool.
sub begin
{
	my ($tag, %sql) = @_;
	my @cases = map { { what => $_, sql => $sql{$_}, server => $node } } sort keys %sql;
	my ($n) = grep { $cases[$_]{what} eq 'a lock' || $cases[$_]{what} eq 'another lock' } 0 .. $#cases;

	push @cases, { %{ $cases[$n] }, what => "$cases[$n]{what}, behind PgBouncer", server => $pool } if $pool;
	for my $case (@cases)
	{
		my $key = $case->{key} = $tag++;

		$case->{session} = ZkTest->new($case->{server});
		my $result = $case->{session}->query($case->{sql} =~ s/\bK\b/$key/gr);
		unlike($result, qr/^f$|ERROR:  (?!22012)|WARNING/m, "$case->{what} is taken");
	}
	return @cases;
}

# Checks after a loss who is disconnected.
sub check
{
	my ($how, $ends, $stays) = @_;

	wait_until("$how: clients are disconnected", sub { !are_alive(@$ends) });
	my $log = slurp_file($node->logfile);
	for my $case (@$ends)
	{
		like($log,
			qr{^${\ $case->{session}->pid} LOG:  disconnected the client because lock on "/(?:other|pg_advisory/postgres)/(?:1\.)?\d+" was lost$}m,
			"$how, $case->{what}: the client is disconnected");
		$case->{session}->close;
	}
	is(are_alive(@$stays), @$stays, "$how: the others are not");
	return;
}

is($admin->query('SHOW zklock.on_loss'), 'auto', 'the setting is the default');

my @ends = begin(100, %ends);
my @stays = begin(200, %stays);
my ($busy) = begin(300, 'a lock' => $ends{'a lock'});
$busy->{session}->start('SELECT pg_sleep(1000)');
is(are_alive(@ends, @stays), @ends + @stays, 'nothing is lost');
$proxy->refuse;
$proxy->cut;
check('loss', \@ends, \@stays);
like($busy->{session}->result, qr{^ERROR:  40001: lock on "/pg_advisory/postgres/300" was lost}m,
	'a statement is cancelled, with the reason');
wait_until('... and the client is disconnected', sub { !are_alive($busy) });
wait_until('all sessions have ended', sub { !$zk->sessions });
restore();

# What a program sees then with 'cancel', and for a lock of a transaction
for my $case (@stays)
{
	my ($what, $session) = @$case{qw(what session)};

	if ($what eq q('cancel'))
	{
		like($session->query('SELECT 1'), qr/^ERROR:  40001: lock on "\S+" was lost/m,
			q('cancel': the next statement of any kind fails));
		is($session->query('SELECT 1'), '1', '... once');
		like($session->query("SELECT pg_advisory_unlock($case->{key})"),
			qr/^WARNING:  01000: you don't own a lock of type ExclusiveLock\n(?:LOCATION: .*\n)?f$/m,
			'... and the lock is not there to be released');
	}
	elsif ($what eq 'a lock of a transaction')
	{
		like($session->query('COMMIT'), qr/^ERROR:  40001: lock on "\S+" was lost/m, "$what: the commit fails");
		is($session->query('SELECT 1'), '1', '... once');
	}
	$session->close;
}

# The worker is stopped: holders notice by themselves.
if (server_mode())
{
	@ends = begin(400, map { $_ => $ends{$_} } 'a lock', 'a lock, in a transaction', 'a lock after another one');
	@stays = begin(500, map { $_ => $stays{$_} } 'another lock', 'a lock of a transaction', 'a released lock');
	my $worker = worker_of($node);

	kill('STOP', $worker);
	check('a stopped worker', \@ends, \@stays);
	kill('CONT', $worker);
	$_->{session}->close for @stays;
}

$pool->stop if $pool;
done_testing();
