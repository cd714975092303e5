# Deadlocks across servers are found and broken, whichever session their backends use.
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkCli;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant {
	WAITS => '/zklock/waits',
	RECORDS => qr{^/zklock},    # for requests that concern them
	TIMEOUT => '200ms',
	WALKS => 4    # MAX_WALKS in deadlock_records.c
};

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $n = 0;

# A server for each way to have ZooKeeper sessions, and one behind the proxy, in the mode
# of this run
my %mode = (
	backend => ['zklock.session_mode' => 'backend'],
	preloaded => [ 'zklock.session_mode' => 'backend', shared_preload_libraries => 'zklock' ],
	server => [ 'zklock.session_mode' => 'server', 'zklock.handover_time' => 0 ],
	gate => [ 'zklock.session_mode' => 'server' ]);
my @modes = grep { !/^(server|gate)$/ || server_mode() eq $_ } sort keys %mode;
my %node = map { ($_ => new_node($_, $zk->hosts, @{ $mode{$_} }, deadlock_timeout => TIMEOUT)) } @modes;
my $near = new_node('near', $proxy->hosts, deadlock_timeout => TIMEOUT);

# Waits until a session has a node that waits in the queue of a path.
sub wait_until_queued
{
	my ($session, $path) = @_;
	my $pid = $session->pid;

	wait_until("process $pid waits at $path", sub { grep { $_ == $pid } queue($zk, $path) });
	return;
}

# Starts a statement that takes a lock, and waits until it waits.
sub block
{
	my ($session, $path, %arguments) = @_;

	$session->start(xact_acquire($path, %arguments));
	wait_until_queued($session, $path);
	return;
}

# Waits until no record is left.
sub wait_for_no_record
{
	wait_until('no record is left', sub { !$zk->children(WAITS) });
	return;
}

# Waits until all sessions have ended their wait. Each is rolled back, so that the next one
# goes on. Returns how many were the victim of a deadlock; all others must have been
# granted their lock.
sub victims
{
	my (@sessions) = @_;
	my $victims = 0;

	while (@sessions)
	{
		wait_until('a wait ends', sub { grep { $_->is_done } @sessions });
		my @done = grep { $_->is_done } @sessions;

		for my $result (map { $_->result } @done)
		{
			$victims++ if $result =~ /40P01: deadlock detected/;
			fail("unexpected: $result") if $result !~ /^t$|40P01/;
		}
		rollback(@done);
		@sessions = grep { my $session = $_; !grep { $_ == $session } @done } @sessions;
	}
	return $victims;
}

sub counted
{
	my ($server) = @_;

	return $server->safe_psql('postgres', 'SELECT sum(deadlocks) FROM zk_lock_stats');
}

# Two servers, opposite order

for my $mode_a (@modes)
{
	for my $mode_b (@modes)
	{
		my ($a, $b) = (ZkTest->new($node{$mode_a}), ZkTest->new($node{$mode_b}));
		my $p = '/t' . ++$n;

		$_->query('BEGIN') for $a, $b;
		$a->query(xact_acquire("$p/1"));
		$b->query(xact_acquire("$p/2"));
		block($a, "$p/2");
		my $began = time();
		$b->start(xact_acquire("$p/1"));
		wait_until('a wait ends', sub { $a->is_done || $b->is_done });
		note(sprintf('a victim after %.3f s', time() - $began));
		is(victims($a, $b), 1, "$mode_a and $mode_b: one is the victim of a deadlock");
		$_->close for $a, $b;
	}
}
wait_for_no_record();

# What the user sees

my ($a, $b, $c, $d) = map { ZkTest->new($_) } $node{preloaded}, $near, $node{backend}, $near;
my $p = '/t' . ++$n;
my %before = (preloaded => counted($node{preloaded}), near => counted($near));

$b->query(q(SET deadlock_timeout = '1h'));
$_->query('BEGIN') for $a, $b;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($b, "$p/1");
is($a->query(xact_acquire("$p/2", timeout => '1s')), 'f',
	'who does not look is a member of no deadlock');
$a->query('ROLLBACK');
is($b->result, 't', '... and is granted its lock');
rollback($b);
$b->query('RESET deadlock_timeout');

$_->query('BEGIN') for $a, $b;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($b, "$p/1");
wait_until('there is a record', sub { $zk->children(WAITS) });
my $log = -s $node{preloaded}->logfile;
my $result = $a->query(xact_acquire("$p/2"));
my ($process_a, $process_b) =
  map { sprintf('rocess %d of \S+:%d', $_->[0]->pid, $_->[1]->port) }
  [ $a, $node{preloaded} ], [ $b, $near ];
like(
	$result,
	qr/^ERROR:  40P01: deadlock detected
DETAIL:  P$process_a waits for exclusive lock on path "$p\/2"; blocked by p$process_b\.
P$process_b waits for exclusive lock on path "$p\/1"; blocked by p$process_a\.
HINT:  See server log for query details\.$/m,
	'the error names the members and their servers');
rollback($a);
is($b->result, 't', '... and the other one goes on');
rollback($b);
like(
	substr(slurp_file($node{preloaded}->logfile), $log),
	qr/Record of p$process_a: zxid \d+, waits with node "\S+"\.\n\s+Record of p$process_b: zxid \d+.*\n\s+Process ${\ $a->pid}: SELECT zk_lock_acquire/,
	'the log has the records and the query');
is(counted($node{preloaded}) - $before{preloaded}, 1, 'the deadlock is counted');
wait_until('pg_stat_database counts it, too',
	sub {
		$a->query('SELECT 1');
		$node{preloaded}->safe_psql('postgres',
			q(SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = 'postgres')) eq 't';
	});

# A user sees no more of others than in zk_locks.

$near->safe_psql('postgres', 'CREATE ROLE plain LOGIN');
$near->safe_psql('postgres', q(ALTER ROLE plain SET deadlock_timeout = '200ms'));
{
	local $ENV{PGUSER} = 'plain';
	my $plain = ZkTest->new($near);

	$p = '/t' . ++$n;
	$_->query('BEGIN') for $a, $plain;
	$a->query(xact_acquire("$p/1"));
	$plain->query(xact_acquire("$p/2"));
	block($a, "$p/2");
	wait_until('there is a record', sub { $zk->children(WAITS) });
	like($plain->query(xact_acquire("$p/1")),
		qr/waits for exclusive lock on path "$p\/1".*\n.*waits for a ZooKeeper lock; blocked/,
		'the detail does not show the locks of others');
	$plain->close;
	$a->result;
	rollback($a);
}

# Readers and writers

$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b, $c;
$a->query(xact_acquire("$p/1", mode => 'shared'));
$c->query(xact_acquire("$p/2"));
block($b, "$p/1", mode => 'write');
block($a, "$p/2");
$c->start(xact_acquire("$p/1", mode => 'shared'));
is(victims($a, $b, $c), 1, 'a reader waits behind a writer that waits behind a reader');

# Many locks

$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b;
$b->query(xact_acquire("$p/2"));
$a->start("SELECT zk_lock_acquire_all('{$p/1,$p/2,$p/3}', scope => 'transaction')");
wait_until_queued($a, "$p/$_") for 1, 2;
$b->start(xact_acquire("$p/1"));
is(victims($a, $b), 1, 'a deadlock with a backend that takes many locks');

# Five backends of three servers; and two deadlocks that share nobody

my @five = map { ZkTest->new($_) } $node{backend}, $near, $node{preloaded}, $near, $node{backend};
for my $round (1 .. 3)
{
	$p = '/t' . ++$n;
	$_->query('BEGIN') for @five;
	$five[$_]->query(xact_acquire("$p/$_")) for 0 .. 4;
	$five[$_]->start(xact_acquire("$p/" . ($_ + 1) % 5)) for 0 .. 4;
	is(victims(@five), 1, 'a cycle of five over three servers has one victim');
}
$_->close for @five;

$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b, $c, $d;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
$c->query(xact_acquire("$p/3"));
$d->query(xact_acquire("$p/4"));
$a->start(xact_acquire("$p/2"));
$c->start(xact_acquire("$p/4"));
$b->start(xact_acquire("$p/1"));
$d->start(xact_acquire("$p/3"));
is(victims($a, $b, $c, $d), 2, 'two deadlocks at once have two victims');
wait_for_no_record();

# No deadlock: a chain whose end waits for a stopped backend, or another client

%before = (preloaded => counted($node{preloaded}), near => counted($near));
for my $end ('a stopped backend', 'another client')
{
	$p = '/t' . ++$n;
	$_->query('BEGIN') for $a, $b, $c;
	$a->query(xact_acquire("$p/1"));
	$b->query(xact_acquire("$p/2"));
	my $other = $zk->create("$p/1/_c_00000000-0000-4000-8000-000000000000-lock-0000000000")
	  if $end eq 'another client';
	$a->start(xact_acquire("$p/0")) if $end eq 'another client';
	kill('STOP', $a->pid) if $end eq 'a stopped backend';
	block($b, "$p/1");
	wait_until('there is a record', sub { $zk->children(WAITS) });
	is($c->query(xact_acquire("$p/2", timeout => '1s')), 'f', "$end: no deadlock");
	ok(!$b->is_done, '... and the other one still waits');
	kill('CONT', $a->pid);
	$a->result;
	rollback($a);
	$zk->delete("$p/1/_c_00000000-0000-4000-8000-000000000000-lock-0000000000");
	is($b->result, 't', '... until it is granted its lock');
	rollback($b, $c);
}

# A node that a record names is not passed on, so that the record is never false.

SKIP:
{
	skip('no lock is handed over', 2) if server_mode() ne 'gate';
	$p = '/t' . ++$n;
	my $token = "SELECT token FROM zk_locks WHERE path = '$p/1' AND granted";

	$_->query('BEGIN') for $a, $b, $d;
	$a->query(xact_acquire("$p/2"));
	$b->query(xact_acquire("$p/1"));
	my $first = $near->safe_psql('postgres', $token);
	$d->start(xact_acquire("$p/1"));
	block($b, "$p/2");
	wait_until('there is a record', sub { $zk->children(WAITS) });
	$near->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $b->pid})");
	like($b->result, qr/57014/, 'a backend with a record is cancelled');
	rollback($b);
	$d->result;
	isnt($near->safe_psql('postgres', $token), $first, '... and the next one gets another node');
	rollback($a, $d);
}

# Requests: a short wait, and one without other locks, send none; others a bounded number

$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b, $d;
$a->query(xact_acquire("$p/1"));
$d->query(xact_acquire("$p/2"));
$d->query(q(SET deadlock_timeout = '1h'));
$proxy->wait_idle;
$proxy->mark;
is($b->query(xact_acquire("$p/1", timeout => '1s')), 'f', 'a wait without other locks');
is(scalar($proxy->requests(RECORDS)), 0, '... sends nothing for the detection');
is($d->query(xact_acquire("$p/1", timeout => '1s')), 'f', 'a wait shorter than deadlock_timeout');
is(scalar($proxy->requests(RECORDS)), 0, '... sends nothing, either');
$d->query('RESET deadlock_timeout');
is($d->query(xact_acquire("$p/1", timeout => '3s')), 'f', 'a long wait with another lock');
wait_for_no_record();
my @requests = map { $_->{op} } $proxy->requests(RECORDS);
note("@requests");
cmp_ok(scalar(@requests), '<=', 8, '... sends a few requests, once');
cmp_ok(scalar(grep { /create/i } @requests), '>=', 1, '... of which one creates its record');
rollback($a, $b, $d);
is(counted($node{preloaded}) + counted($near), $before{preloaded} + $before{near},
	'none of these was a deadlock');

# The worker limits the walks that run at the same time, and no record is forgotten.

SKIP:
{
	skip('there is no worker', 2) if !server_mode();
	my @many = map { ZkTest->new($near) } 1 .. WALKS + 4;

	$p = '/t' . ++$n;
	$a->query('BEGIN');
	$a->query(xact_acquire("$p/0"));
	for my $i (0 .. $#many)
	{
		$many[$i]->query('BEGIN');
		$many[$i]->query(xact_acquire("$p/own/$i"));
	}
	$proxy->rule(dir => 's2c', op => 'getChildren', path => '^' . WAITS, action => 'hold');
	$_->start(xact_acquire("$p/0")) for @many;
	wait_until('all have waited longer than deadlock_timeout', sub {
		$near->safe_psql('postgres', <<'EOSQL') == @many;
SELECT count(*) FROM zk_locks WHERE waitstart < clock_timestamp() - interval '1 s'
EOSQL
	});
	is(scalar(() = $zk->children(WAITS)), WALKS, 'number of walks at the same time');
	$proxy->reset;
	wait_until('all have a record', sub { (() = $zk->children(WAITS)) == @many });
	rollback($a);
	is(victims(@many), 0, '... and all are granted the lock');
	$_->close for @many;
}

# The connection is lost in the midst of a walk, or ZooKeeper is restarted.

for my $op ('create2', 'getChildren', 'getData', 'sync', 'delete')
{
	$p = '/t' . ++$n;
	$_->query('BEGIN') for $a, $b;
	$a->query(xact_acquire("$p/1"));
	$b->query(xact_acquire("$p/2"));
	block($a, "$p/2");
	wait_until('there is a record', sub { $zk->children(WAITS) });
	my $rule = $proxy->rule(dir => 's2c', op => $op, path => '^' . WAITS, action => 'drop');
	$b->start(xact_acquire("$p/1"));
	is(victims($a, $b), 1, "the reply to a $op is lost: still one victim");
	ok($proxy->fired($rule), '... and it was lost');
	$proxy->reset;
}
$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($a, "$p/2");
$proxy->rule(dir => 's2c', op => 'getData', path => '^' . WAITS, action => 'hold');
$b->start(xact_acquire("$p/1"));
$proxy->wait_frame(dir => 's2c', op => 'getData');
$zk->restart;
$proxy->reset;
is(victims($a, $b), 1, 'ZooKeeper is restarted in the midst of a walk');
wait_for_no_record();

# A cancellation or a timeout at the same time is reported as what it is.

my %ends;
for my $round (1 .. 10)
{
	$p = '/t' . ++$n;
	$_->query('BEGIN') for $a, $b;
	$a->query(xact_acquire("$p/1"));
	$b->query(xact_acquire("$p/2"));
	block($a, "$p/2");
	$b->query('SET LOCAL statement_timeout = ' . (200 + 4 * $round));
	$b->start(xact_acquire("$p/1"));
	wait_until('a wait ends', sub { $a->is_done || $b->is_done });
	rollback($b) if $b->is_done && ($ends{ $b->result =~ /(40P01|57014)/ ? $1 : $b->result }++, 1);
	my $end = $a->result;
	$ends{ $end =~ /(40P01|57014)/ ? $1 : $end }++;
	rollback($a);
	if (!$b->is_done || $b->result ne '')
	{
		my $other = $b->result;

		$ends{ $other =~ /(40P01|57014)/ ? $1 : $other }++;
	}
	rollback($b);
}
note(join(', ', map { "$_: $ends{$_}" } sort keys %ends));
is(join(' ', grep { !/^(t|40P01|57014)$/ } keys %ends), '',
	'a timeout races with the verdict: each wait ends with one or the other');
wait_for_no_record();

# A backend that was killed blocks others until its session expires, and is a member of a
# deadlock until then.

SKIP:
{
	skip('the next worker continues the session', 1) if server_mode();
	my $killed = ZkTest->new(
		new_node('killed', $zk->hosts,
			deadlock_timeout => TIMEOUT,
			restart_after_crash => 'on',
			'zklock.session_timeout' => '60s'));

	$p = '/t' . ++$n;
	$_->query('BEGIN') for $killed, $b;
	$killed->query(xact_acquire("$p/1"));
	$b->query(xact_acquire("$p/2"));
	block($killed, "$p/2");
	wait_until('there is a record', sub { $zk->children(WAITS) });
	kill('KILL', $killed->pid);
	wait_until('the backend is gone', sub { !kill(0, $killed->pid) });
	like($b->query(xact_acquire("$p/1")), qr/^ERROR:  40P01: /,
		'a deadlock with a backend that was killed, whose session has not expired');
	$zk->delete(WAITS . "/$_") for $zk->children(WAITS);
	rollback($b);
}

# Records that are none, and no permission

$p = '/t' . ++$n;
$zk->create(WAITS . '/garbage', "zklock-1\t\n\0");
$zk->create(WAITS . '/empty', '');
$zk->create(WAITS . '/long', 'x' x 10000);
$_->query('BEGIN') for $a, $b;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($a, "$p/2");
$b->start(xact_acquire("$p/1"));
is(victims($a, $b), 1, 'records that are not understood are ignored');
$zk->delete(WAITS . "/$_") for 'garbage', 'empty', 'long';

# The record of a member names a process without a pid.
$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($a, "$p/2");
wait_until('there is a record', sub { $zk->children(WAITS) });
my $record = WAITS . '/' . ($zk->children(WAITS))[0];
my $client = ZkClient->new($zk->hosts);
$client->set($record, $client->get($record)->{data} =~ s/\A(\S+\t\S+\t).*/$1host=h port=1/r);
like($b->query(xact_acquire("$p/1")), qr/blocked by the process of node "\S+"\.\nThe process of node/,
	'the error shows nothing of a process that its record does not say');
rollback($b);
is($a->result, 't', '... and the other one goes on');
rollback($a);
$client->close;

# What $a's server has logged about records that were refused
sub refusals
{
	return slurp_file($node{preloaded}->logfile) =~
	  /LOG:  zklock could not publish the record of a wait below "\/zklock\/waits"\n.*DETAIL:  ZooKeeper refused it: (.*?)\.  /g;
}

# A deadlock is not found, and ends when $b's wait times out.
sub end_by_timeout
{
	$p = '/t' . ++$n;
	$_->query('BEGIN') for $a, $b;
	$a->query(xact_acquire("$p/1"));
	$b->query(xact_acquire("$p/2"));
	block($a, "$p/2");
	is($b->query(xact_acquire("$p/1", timeout => '2s')), 'f', 'deadlock ends by a timeout');
	rollback($b);
	is($a->result, 't', '... and the other one goes on');
	rollback($a);
	return;
}

wait_for_no_record();
zkcli($zk, 'setAcl ' . WAITS . ' world:anyone:d');
is(scalar(my @none = refusals()), 0, 'no record was refused');
end_by_timeout();
is(join(', ', refusals()), 'not authenticated', '... without permission, which is logged once');

$client = ZkClient->new($zk->hosts);
$zk->delete($_) for grep { $zk->exists($_) } WAITS, '/zklock';
$client->create('/zklock', '', ZkClient::EPHEMERAL);
end_by_timeout() for 1, 2;
is((refusals())[1], 'no children for ephemerals', '... and with a client\'s node in place of the parent');
is(scalar(@none = refusals()), 2, '... which is logged once, too');
$client->close;
$p = '/t' . ++$n;
$_->query('BEGIN') for $a, $b;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($a, "$p/2");
wait_until('there is a record', sub { $zk->children(WAITS) });
is($node{preloaded}->safe_psql('postgres', q(SELECT count(*) FROM zk_lock_paths() WHERE path LIKE '/zklock%')),
	'0', 'zk_lock_paths() shows no records');
$b->start(xact_acquire("$p/1"));
is(victims($a, $b), 1, 'when that is gone, deadlocks are found again');

# The path of the records is not that of a lock.

for my $path ('/zklock', '/zklock/x', WAITS, WAITS . '/x')
{
	like($a->query("SELECT $_"),
		qr/^ERROR:  22023: invalid lock path "$path"\nDETAIL:  "\/zklock" is reserved/m, "$_ is refused")
	  for map { sprintf($_, $path) } q(zk_lock_acquire('%s')), q(zk_lock_acquire('%s', mode => 'simple')),
	  q(zk_lock_acquire_all('{/x, %s}')), q(zk_lock_guard('%s')), q(zk_semaphore_acquire('%s', 1)),
	  q(zk_semaphore_acquire_counted('/x', '%s')), q(zk_shared_count_set('%s', 1)),
	  q(zk_lock_queue('%s')), q(zk_lock_paths('%s')), q(zk_lock_revoke('%s'));
}
is($a->query(q(SELECT zk_lock_acquire('/zklock2'), zk_lock_release_all())), 't|1',
	'... but not another name that begins so');

done_testing();
