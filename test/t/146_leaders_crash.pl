# A server that leads ends, or loses its session, without notice: another one leads when nobody
# can commit in the old term any more, and not before. A standby does not lead, and does so once
# it is promoted.
#
# Left out of make test: it takes long.
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant PATH => '/leaders/cron';

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my %conf = (
	shared_preload_libraries => 'zklock',
	'zklock.leaders' => PATH,
	'zklock.session_timeout' => '4s',
	restart_after_crash => 'on',
	wal_level => 'replica',
	max_wal_senders => 5);
my $lost = qr{^ERROR:  40001: lock on "/leaders/cron" was lost$}m;
my %nodes = (
	main => new_node('main', $proxy->hosts, %conf, 'zklock.session_mode' => 'server'),
	other => new_node('other', $zk->hosts, %conf, 'zklock.session_mode' => 'backend'));
$_->safe_psql('postgres', 'CREATE TABLE done (n int)') for values %nodes;

sub state_of
{
	my ($name) = @_;

	return eval { $nodes{$name}->safe_psql('postgres', 'SELECT state FROM zk_leaders') } // 'down';
}

sub wait_for_state
{
	my ($name, $state) = @_;

	return wait_until("server $name $state", sub { state_of($name) eq $state });
}

# Server "main" leads, and "other" waits.
sub lead
{
	wait_until(
		'both servers are in the queue',
		sub { join(' ', sort map { state_of($_) } qw(main other)) eq 'leads waits' });
	$nodes{other}->safe_psql('postgres', q(SELECT zk_leader_resign('/leaders/cron')))
	  if state_of('other') eq 'leads';
	wait_for_state(main => 'leads');
	wait_for_state(other => 'waits');
	return;
}

sub guard
{
	my $session = ZkTest->new($nodes{main});

	$session->query(q(BEGIN; SELECT zk_leader_guard('/leaders/cron'); INSERT INTO done VALUES (1)));
	return $session;
}

# The session ends while the server runs. What is under way fails before another server leads.
sub check_loss
{
	my ($what, $begin, $end) = @_;

	lead();
	my ($running, $idle, $committing) = map { guard() } 1 .. 3;
	my $observer = ZkTest->new($nodes{main});

	$running->start('SELECT pg_sleep(1000)');
	$begin->();
	wait_until("$what: the server knows that it may not lead any more",
		sub { $observer->query(q(SELECT zk_leads('/leaders/cron'))) eq 'f' });
	is($observer->query('SELECT state FROM zk_leaders') =~ /^(lost|joins)$/ ? 1 : 0, 1,
		'... and shows it');
	wait_for_state(other => 'leads');
	like($running->result, $lost, '... a running statement was cancelled');
	like($committing->query('COMMIT'), $lost, '... a commit fails');
	$end->();
	wait_for_state(main => 'waits');
	like($idle->query('SELECT 1'), $lost, '... and a statement in a transaction of that time');
	is($observer->query('SELECT count(*) FROM done'), 0, '... of which nothing is left');
	lead();
	$_->query('ROLLBACK') for $running, $idle;
	is($_->query(q(SELECT zk_leader_guard('/leaders/cron') > 0)), 't',
		'... and a guard of the next term in the same session')
	  for $running, $idle;
	$_->close for $running, $idle, $committing, $observer;
	return;
}

# Guards and their commits send nothing. While the session is idle, the worker looks at its node.

lead();
my $guarded = ZkTest->new($nodes{main});
$proxy->mark;
is($guarded->query(q(DO $$ BEGIN
	FOR i IN 1 .. 1000 LOOP PERFORM zk_leader_guard('/leaders/cron'); COMMIT; END LOOP; END $$)),
	'', 'guarded transactions');
cmp_ok(scalar($proxy->requests), '<', 100, '... send nothing to ZooKeeper');

# With this setting, each commit asks for the node, and not only the first one.
my ($owner) = sort { substr($a, -10) <=> substr($b, -10) } $zk->children('/leaders/cron');
is($guarded->query(q(SET zklock.confirm_commit = 'always'; BEGIN; SELECT zk_leader_guard('/leaders/cron') > 0;
	COMMIT; BEGIN; SELECT zk_leader_guard('/leaders/cron') > 0)), "t\nt", 'a guarded transaction asks');
$zk->delete("/leaders/cron/$owner");
like($guarded->query('COMMIT'), $lost, '... and the next one, so that it does not miss that the node was deleted');
$guarded->close;
wait_for_state(other => 'leads');

my $worker = worker_of($nodes{main});
check_loss('a worker that is suspended', sub { kill('STOP', $worker) }, sub { kill('CONT', $worker) });
check_loss('a network that is cut', sub { $proxy->hold }, sub { $proxy->release });

# ZooKeeper may be restarted: the term lasts, if the session does.

my $calm = new_node('calm', $zk->hosts, %conf,
	'zklock.leaders' => '/leaders/calm', 'zklock.session_timeout' => '60s');
my $session = ZkTest->new($calm, 'zklock.connect_timeout' => '60s');
my $leads = q(SELECT state, token FROM zk_leaders);
my $before = wait_until('it leads', sub { my $is = $session->query($leads); $is =~ /^leads/ && $is });
$session->query(q(BEGIN; SELECT zk_leader_guard('/leaders/calm')));
$zk->restart;
is($session->query('COMMIT'), '', 'a commit after ZooKeeper was restarted');
is($session->query($leads), $before, '... in the same term');
$session->close;
$calm->stop;

# The server ends. Once it is back, another one leads at once.

for my $end (qw(smart fast immediate killed))
{
	lead();
	$nodes{main}->safe_psql('postgres', 'TRUNCATE done');
	if ($end eq 'killed')
	{
		my @pids = split(/\n/, $nodes{main}->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity'));

		$nodes{main}->kill9;
		wait_until('all its processes have ended', sub { !kill(0, @pids) });
	}
	else
	{
		$nodes{main}->stop($end);
	}
	wait_for_state(other => 'leads') if $end =~ /^(smart|fast)$/;
	$nodes{main}->start;
	my $seconds = seconds_of(sub { wait_for_state(other => 'leads') });
	pass("a server that was stopped, $end");
	note("after $seconds s");
}
lead();
my $victim = ZkTest->new($nodes{main});
crash_server($nodes{main}, $victim->pid);
wait_for_state(other => 'leads');
lead();
crash_server($nodes{main}, worker_of($nodes{main}));
wait_for_state(other => 'leads');
lead();
pass('a server that has crashed');

# A standby

$nodes{standby} = new_standby('standby', $nodes{main}, 'zklock.hosts' => $zk->hosts);
wait_for_state(standby => 'recovery');
pass('a standby does not lead');
my $there = ZkTest->new($nodes{standby});
is($there->query(q(SELECT zk_leads('/leaders/cron'))), 'f', '... nor seems to');
like($there->query(q(SELECT zk_leader_guard('/leaders/cron'))),
	qr/^ERROR:  55000: this server does not lead/m, '... nor guards');
like($there->query(q(SELECT zk_lock_acquire('/leaders/cron'))), qr/^ERROR:  55000: cannot take/m,
	'... and takes no lock there');
is(scalar($zk->children(PATH)), 2, '... and has no node');
$nodes{other}->stop;
$nodes{main}->stop('immediate');
$nodes{standby}->promote;
wait_for_state(standby => 'leads');
pass('... and leads when it is promoted, and the primary has ended');
$nodes{other}->start;
wait_for_state(other => 'waits');
is($there->query(q(BEGIN; SELECT zk_leader_guard('/leaders/cron') > 0; INSERT INTO done VALUES (1);
	COMMIT)), 't', '... with guards');

done_testing();
