# Readers of one server share a node: who joins others sends no request, and writers
# have their turn.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# The long timeout avoids renewals of the server's session.
my $node = new_node(
	'main', $proxy->hosts,
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '60s',
	deadlock_timeout => '100ms',
	restart_after_crash => 'on');
my @readers = map { ZkTest->new($node)->connect } 1 .. 8;
my $writer = ZkTest->new($node)->connect;
my $observer = ZkTest->new($node)->connect;

# Has these readers share a node. The time in which they may do so is long.
sub share
{
	my ($path, @sessions) = @_;

	is($_->query(acquire($path, mode => 'shared')), 't', "a reader has $path") for @sessions;
	is(scalar $zk->children($path), 1, '... with one node');
	return;
}

sub release
{
	$_->query('SELECT zk_lock_release_all()') for @_;
	return;
}

# All of them wait for a statement of theirs.
sub sleep_all
{
	$_->start('SELECT pg_sleep(1000)') for @_;
	for my $session (@_)
	{
		$session->wait_for_event('PgSleep');
	}
	return;
}

change_setting($node, 'zklock.handover_time', '1min', @readers, $writer);

# The first reader creates a node, and the last one deletes it.
share('/readers/cost', $readers[0]);
$proxy->wait_idle;
$proxy->mark;
is($_->query(acquire('/readers/cost', mode => 'shared')), 't', 'a reader joins') for @readers[ 1 .. 7 ];
$proxy->wait_idle;
is_deeply([ map { $_->{op} } $proxy->requests ], [], '... without a request');
is( $observer->query(
		q(SELECT count(*), count(DISTINCT node), count(DISTINCT token), max(grant_number)
		  FROM zk_locks WHERE granted)),
	'8|1|1|0',
	'all have one node, one token and one number');
is($readers[0]->query(q(SELECT zk_lock_release('/readers/cost', 'shared'))),
	't', 'the one that came first leaves');
is($readers[0]->query(acquire('/readers/cost', mode => 'shared', timeout => '0')),
	't', '... and joins again, without a wait');
is($readers[0]->query(q(SELECT zk_lock_acquire('/readers/cost', '0'))) =~ /40P01/,
	1, '... but gets no stronger lock');
release(@readers[ 0 .. 6 ]);
$proxy->wait_idle;
is_deeply([ map { $_->{op} } $proxy->requests ], [], '... all of this without a request');
is(scalar $zk->children('/readers/cost'), 1, 'the last reader still has the node');
is( $readers[7]->query(
		q(BEGIN; SELECT zk_lock_guard('/readers/cost', mode => 'shared') > 0;
		  SELECT zk_lock_fence('/readers/cost', 'shared') > 0; COMMIT)),
	"t\nt",
	'... and commits under it');
release($readers[7]);
wait_for_nodes($zk, '/readers/cost', 0);
is($node->safe_psql('postgres', 'SELECT handovers > 7 FROM zk_lock_stats'),
	't', 'the statistics count who joins');

# Readers that wait are granted the lock together.
is($writer->query(acquire('/readers/together', mode => 'write')), 't', 'a writer has the lock');
$_->start(acquire('/readers/together', mode => 'shared')) for @readers;
wait_for_nodes($zk, '/readers/together', 2);
wait_until('all readers wait',
	sub { $observer->query('SELECT count(*) FROM zk_locks WHERE NOT granted') == 8 });
is(scalar $zk->children('/readers/together'), 2, '... with one node');
ok(!$readers[0]->is_done, '... for the writer');
release($writer);
is($_->result, 't', '... and are granted the lock together') for @readers;
release(@readers);
wait_for_nodes($zk, '/readers/together', 0);

# A reader that does not wait is told who has the lock, also if those that wait do not know
# that yet.
my $rival = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $zk->hosts);
$rival->query(acquire('/readers/detail', mode => 'write'));
my $late_answer =
  $proxy->rule(dir => 's2c', op => 'getData', action => 'delay', ms => 500);
$readers[0]->start(acquire('/readers/detail', mode => 'shared'));
wait_until('a reader asks who has the lock', sub { $proxy->fired($late_answer) });
like($readers[1]->query(q(SELECT zk_lock_guard('/readers/detail', '0', 'shared'))),
	qr/^ERROR:  55P03: .*\nDETAIL:  The lock is held by \S+ \S+ pid=${\ $rival->pid} /,
	'a reader that does not wait is told who has the lock');
$rival->close;
is($readers[0]->result, 't', '... and another one waits for it');
release(@readers);
wait_for_nodes($zk, '/readers/detail', 0);

# No reader joins others once a writer waits.
share('/readers/writer', @readers[ 0, 1 ]);
$writer->start(acquire('/readers/writer', mode => 'exclusive'));
wait_for_nodes($zk, '/readers/writer', 2);
$readers[2]->start(acquire('/readers/writer', mode => 'shared'));
wait_for_nodes($zk, '/readers/writer', 3);
is($readers[3]->query(acquire('/readers/writer', mode => 'shared', timeout => '0')),
	'f', 'a reader that does not wait is refused behind a waiting writer');
ok(!$readers[2]->is_done, '... and another one waits');
is( $observer->query(
		"SELECT string_agg(blocking_pid::text, ' ' ORDER BY blocking_pid)
		 FROM zk_lock_blockers WHERE pid = ${\ $writer->pid}"),
	join(' ', sort { $a <=> $b } map { $_->pid } @readers[ 0, 1 ]),
	'all readers are shown to block the writer');
release(@readers[ 0, 1 ]);
is($writer->result, 't', '... until the writer has had its turn');
ok(!$readers[2]->is_done, '... and has given the lock back');
release($writer);
is($readers[2]->result, 't', '... to the reader');
release($readers[2]);

# A deadlock through one of those who share a node is found.
share('/readers/deadlock', @readers[ 0, 1 ]);
is($writer->query(acquire('/readers/other', mode => 'write')), 't', 'a writer has another lock');
$writer->start(acquire('/readers/deadlock', mode => 'write'));
wait_for_nodes($zk, '/readers/deadlock', 2);
$readers[1]->start(acquire('/readers/other', mode => 'shared'));
wait_until('one of them is ended', sub { $writer->is_done || $readers[1]->is_done });
my ($victim, $survivor) =
  $writer->is_done ? ($writer, $readers[1]) : ($readers[1], $writer);
like($victim->result, qr/^ERROR:  40P01: /, 'a deadlock with a reader is found');
release($readers[0], $victim);
is($survivor->result, 't', '... and the other one goes on');
release($survivor, $writer, @readers);
wait_for_nodes($zk, '/readers/deadlock', 0);

# The locks of those who share a node are revoked together.
$_->query('SET zklock.revocable = on') for @readers[ 0 .. 2 ];
share('/readers/revoked', @readers[ 0 .. 2 ]);
is($readers[3]->query(acquire('/readers/revoked', mode => 'shared')),
	't', 'a reader whose lock cannot be revoked');
is(scalar $zk->children('/readers/revoked'), 2, '... has a node of its own');
sleep_all(@readers[ 0 .. 3 ]);
is($observer->query(q(SELECT zk_lock_revoke('/readers/revoked'))), 1, 'the other is revoked');
like($_->result, qr/^ERROR:  57014: .* was revoked/, '... and all that share it are told')
  for @readers[ 0 .. 2 ];
ok(!$readers[3]->is_done, '... and nobody else');
is($readers[4]->query("SET zklock.revocable = on; ${\ acquire('/readers/revoked', mode => 'shared')}"),
	't', 'another reader');
is(scalar $zk->children('/readers/revoked'), 3, '... does not join those');
$observer->query("SELECT pg_cancel_backend(${\ $readers[3]->pid})");
like($readers[3]->result, qr/^ERROR:  57014: /, 'a statement is cancelled');
release(@readers);
$_->query('RESET zklock.revocable') for @readers[ 0 .. 4 ];
wait_for_nodes($zk, '/readers/revoked', 0);

# When their node is deleted by hand, all that share it have lost their lock.
$_->query('BEGIN') for @readers[ 0 .. 2 ];
share('/readers/deleted', @readers[ 0 .. 2 ]);
$_->query(q(SELECT zk_lock_guard('/readers/deleted', mode => 'shared'))) for @readers[ 0 .. 2 ];
sleep_all(@readers[ 1, 2 ]);
$zk->delete('/readers/deleted/' . ($zk->children('/readers/deleted'))[0]);
like($readers[0]->query('SET zklock.confirm_commit = always; COMMIT'),
	qr/^ERROR:  40001: /, 'a node is gone at the commit of a reader');
like($_->result, qr/^ERROR:  40001: /, '... and all that share it are told')
  for @readers[ 1, 2 ];
$_->query('ROLLBACK') for @readers[ 0 .. 2 ];
release(@readers);
share('/readers/deleted', @readers);
release(@readers);
wait_for_nodes($zk, '/readers/deleted', 0);

# Who is terminated leaves the lock to the others.
share('/readers/ended', @readers[ 0 .. 2 ]);
$observer->query("SELECT pg_terminate_backend(${\ $readers[0]->pid})");
wait_until('a reader has ended',
	sub { $observer->query('SELECT count(*) FROM zk_locks') == 2 });
is(scalar $zk->children('/readers/ended'), 1, 'the others still have the node');
is($_->query('BEGIN; SET zklock.confirm_commit = always; SELECT 1; COMMIT'),
	1, '... and commit under it')
  for @readers[ 1, 2 ];
$writer->start(acquire('/readers/ended', mode => 'write'));
wait_for_nodes($zk, '/readers/ended', 2);
ok(!$writer->is_done, '... before a writer');
release(@readers[ 1, 2 ]);
is($writer->result, 't', '... which is next');
release($writer);
$readers[0] = ZkTest->new($node)->connect;

# Writers have their turn though readers never stop.
change_setting($node, 'zklock.handover_time', '100ms', @readers, $writer);
$rival = ZkTest->new($node, OWN_SESSION)->connect;
for my $path ('/readers/busy/here', '/readers/busy/elsewhere')
{
	my $who = $path =~ /here$/ && $path !~ /else/ ? $writer : $rival;

	$_->start(
		"DO \$\$ BEGIN
			LOOP
				PERFORM zk_lock_acquire('$path', mode => 'shared');
				PERFORM pg_sleep(0.001);
				PERFORM zk_lock_release('$path', 'shared');
				EXIT WHEN clock_timestamp() > now() + interval '1min';
			END LOOP;
		END \$\$") for @readers;
	my $joins = $observer->query('SELECT handovers FROM zk_lock_stats');
	wait_until('readers join each other',
		sub { $observer->query('SELECT handovers FROM zk_lock_stats') > $joins });
	for my $turn (1 .. 3)
	{
		my $began = time();

		is($who->query(acquire($path, mode => 'write')), 't', "a writer has turn $turn of $path");
		cmp_ok(time() - $began, '<', 10, '... soon');
		release($who);
	}
	is(scalar(grep { $_->is_done } @readers), 0, '... while readers go on');
	$observer->query("SELECT pg_cancel_backend(${\ $_->pid})") for @readers;
	like($_->result, qr/^ERROR:  57014: /, '... until they are cancelled') for @readers;
	release(@readers);
	wait_for_nodes($zk, $path, 0);
}
$rival->close;

# Who comes later has a node of its own.
is($readers[0]->query(acquire('/readers/late', mode => 'shared')), 't', 'a reader has a lock');
my $late = time() + 0.2;
wait_until('the time to join is over', sub { time() > $late });
is($readers[1]->query(acquire('/readers/late', mode => 'shared')), 't', '... and so has another');
is(scalar $zk->children('/readers/late'), 2, '... with another node');
release(@readers);
wait_for_nodes($zk, '/readers/late', 0);

# After a crash of the server nothing is left.
change_setting($node, 'zklock.handover_time', '1min', @readers, $writer);
share('/readers/crash', @readers[ 0 .. 3 ]);
crash_server($node, $readers[1]->pid);
wait_for_nodes($zk, '/readers/crash', 0);
is($node->safe_psql('postgres', "SELECT zk_lock_acquire('/readers/crash', '1min')"),
	't', 'the lock is free after a crash');

done_testing();
