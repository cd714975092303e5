# zk_sources shows where the data of a server comes from: its row on a standby, in each state,
# for each role. How a standby goes on after its primary has ended: at once if that was shut
# down, and not before it was told to if it has crashed.
#
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

use constant LONG => 20; # s; less than zklock.connect_timeout, and than the timeout of a session

my $zk = ZkServer->new(tick_time => 200)->start;
my %conf = (
	autovacuum => 'off',
	shared_preload_libraries => 'zklock',
	wal_level => 'replica',
	wal_keep_size => '1GB',
	max_wal_senders => 5,
	'zklock.session_mode' => 'server',
	'zklock.answer_positions' => 'on',
	'zklock.catch_up' => 'off',
	'zklock.catch_up_timeout' => '60s',
	'zklock.connect_timeout' => '60s');
my $primary = new_node('primary', $zk->hosts, %conf);
my $writer = ZkTest->new($primary);
$writer->query('CREATE TABLE stock AS SELECT 0 AS n; CREATE ROLE nobody');

# Makes a standby of a server, with its settings and these.
sub new_standby
{
	my ($name, $of, %settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$of->backup("for_$name");
	$node->init_from_backup($of, "for_$name", has_streaming => 1);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") for sort keys %settings;
	$node->start;
	return $node;
}

my $standby = new_standby('standby', $primary);
my $reader = ZkTest->new($standby);

# Columns of the only row, on the standby
sub source
{
	my ($columns) = @_;

	return ZkTest->new($standby)->query("SELECT $columns FROM zk_sources");
}

# The view
is($writer->query('SELECT count(*) FROM zk_sources'), '0', 'a primary has no source');
is(source('*'), 'primary|primary|unknown|||||0|0|0', 'a standby before its first question');
$writer->query('UPDATE stock SET n = n + 1');
is($reader->query('SELECT zk_caught_up()'), 't', 'the standby catches up');
is( source(
		'state, position <= pg_last_wal_replay_lsn(), bytes_behind, asked < reached, reached <= now(), '
		  . 'catch_ups, failures, wait_time > 0'),
	'answers|t|0|t|t|1|0|t',
	'... and shows when, and that it was successful');

change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('UPDATE stock SET n = n + 1');
$reader->start('CALL zk_catch_up()');
wait_until('the wait has an answer', sub { source('bytes_behind > 0') eq 't' });
is(source('state, position > pg_last_wal_replay_lsn(), asked > reached, catch_ups, failures'),
	'answers|t|t|1|0', 'a wait for replay');
like(
	ZkTest->new($standby)->query(
		"SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = ${\ $reader->pid}"),
	qr/^Extension\|(?:Extension|ZooKeeperCatchUp)$/,
	'... has a wait event');
kill('INT', $reader->pid);
like($reader->result, qr/^ERROR:  57014/m, '... is cancelled');
is(source('catch_ups, failures'), '1|1', '... which is a failure');
is($reader->query(q(SELECT zk_caught_up('10ms'))), 'f', 'not in time');
is(source('catch_ups, failures'), '1|2', '... is a failure, too');
$reader->query('SELECT pg_wal_replay_pause()');
is(source('state'), 'paused', 'replay is paused');
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55000/m, '... which is an error');
is(source('catch_ups, failures'), '1|3', '... and a failure');
$reader->query('SELECT pg_wal_replay_resume()');
change_setting($standby, 'recovery_min_apply_delay', 0, $reader);

# Each role sees all of that, since there is nothing secret in it, and resets nothing.
is($reader->query('SET ROLE nobody; SELECT kind, name, position IS NULL, failures FROM zk_sources'),
	'primary|primary|f|3', 'a role without privileges sees all columns');
like($reader->query('SELECT zk_lock_stats_reset()'), qr/^ERROR:  42501/m, '... and resets nothing');
$reader->query('RESET ROLE; SELECT zk_lock_stats_reset()');
is(source('catch_ups, failures, wait_time, position IS NULL'), '0|0|0|f', 'a reset');

# Who may forget a source, and when
my $forget = q(SELECT zk_source_forget('primary'));
like($reader->query("SET ROLE nobody; $forget"), qr/^ERROR:  42501/m, 'nobody forgets a source');
$reader->query('RESET ROLE');
like($writer->query($forget), qr/^ERROR:  42704: source "primary" does not exist/m, 'a primary has none');
like($reader->query(q(SELECT zk_source_forget('other'))), qr/^ERROR:  42704/m, 'another name');
like($reader->query($forget), qr/^ERROR:  55006: cannot forget a source that answers$/m,
	'one that answers is not forgotten');
is($reader->query('SELECT zk_caught_up()'), 't', '... and is waited for');

# The primary is shut down. Its process publishes a last position, and another one commits
# after that. The standby goes on when it shows this commit.
sub worker_of
{
	my ($session) = @_;

	return $session->query(
		q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock WAL positions'));
}

sub postmaster_of
{
	my ($node) = @_;
	my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;

	return $pid;
}

my $postmaster = postmaster_of($primary);
my $worker = worker_of($writer);
change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('BEGIN; UPDATE stock SET n = 100');
kill('STOP', $postmaster);    # so that it does not start the process again
kill('TERM', $worker);
wait_until('the process has ended', sub { slurp_file("/proc/$worker/stat") =~ /\) Z / });
$writer->query('COMMIT');
$writer->query('SELECT pg_switch_wal()');
$writer->close;
kill('INT', $postmaster);
kill('CONT', $postmaster);
wait_until('the primary is shut down', sub { !-e $primary->data_dir . '/postmaster.pid' });
$primary->{_pid} = undef;
like($reader->query(q(CALL zk_catch_up('500ms'))),
	qr/^ERROR:  55P03: could not catch up in time\nDETAIL:  Replay has reached .*, and has been waited for \d+ ms to reach the end of the WAL of the server that was shut down at /m,
	'a commit after the last position is waited for');
is(source('state, bytes_behind'), 'closed|0', '... although that was reached');
change_setting($standby, 'recovery_min_apply_delay', 0, $reader);
is($reader->query('SELECT zk_caught_up()'), 't', 'the standby goes on');
is($reader->query('SELECT n FROM stock'), '100', '... and shows it');
is(source('state'), 'closed', '... from a primary that was shut down');

# The standby remembers that until it is restarted, also without the WAL that has proved it.
my ($high, $low) = map { hex } split(m{/}, source('position'));
my $segment = sprintf('%s/pg_wal/00000001%08X%08X', $standby->data_dir, $high, $low >> 24);
ok(-e $segment, 'the standby has the WAL of the last position');
change_setting($standby, 'wal_keep_size', 0, $reader);
$reader->query('CHECKPOINT');
ok(!-e $segment, '... until it removes that');
is($reader->query('SELECT zk_caught_up()'), 't', '... and goes on without it');
$standby->restart;
$reader = ZkTest->new($standby);
my $unproved =
  qr/^ERROR:  55000: the server whose WAL is replayed here does not answer\nDETAIL:  A server with the same system identifier was shut down, but/m;
like($reader->query('CALL zk_catch_up()'), $unproved, '... until it is restarted');
is($reader->query($forget), '', '... or the primary is forgotten');

# The primary is back, without the process that answers. A holder of a lock has committed there
# before the next one, on the standby, relies on the end.
$primary->append_conf('postgresql.conf', $_)
  for 'max_worker_processes = 1', 'zklock.session_mode = backend';
$primary->start;
$writer = ZkTest->new($primary);
is(worker_of($writer), '', 'no process answers');
is($reader->query('SELECT zk_caught_up()'), 't', 'the standby goes on');
$writer->query(q(BEGIN; SELECT zk_lock_guard('/stock'); UPDATE stock SET n = 200; COMMIT));
$reader->query(q(BEGIN; SELECT zk_lock_guard('/stock')));
my $silent = qr/^ERROR:  55000: the server whose WAL is replayed here does not answer\nDETAIL:  In ZooKeeper, no server/m;
like($reader->query('CALL zk_catch_up()'), $silent, '... but not after a lock of the primary');
$reader->query('ROLLBACK');

sub restart_primary
{
	my (%settings) = @_;

	$writer->close;
	$primary->stop if $primary->{_pid};
	$primary->append_conf('postgresql.conf', "$_ = '$settings{$_}'") for sort keys %settings;
	$primary->start;
	$writer = ZkTest->new($primary);
	return;
}

sub wait_until_it_answers
{
	wait_until('the primary answers',
		sub { $reader->query('SELECT zk_caught_up()') eq 't' && source('state') eq 'answers' });
	return;
}

restart_primary(max_worker_processes => 8, 'zklock.session_mode' => 'server');
wait_until_it_answers();
is($reader->query('SELECT n FROM stock'), '200', 'the primary answers again');

# A primary that is shut down, and started without answers
restart_primary('zklock.answer_positions' => 'off');
wait_until('the end is void', sub { $reader->query('CALL zk_catch_up()') =~ $silent });
is(source('state'), 'silent', 'a primary that runs without answers is silent');
restart_primary('zklock.answer_positions' => 'on');
wait_until_it_answers();

# A copy that was promoted, and the primary crashes
my $copy = new_standby('copy', $primary);
$primary->wait_for_catchup($copy, 'replay', $primary->lsn('insert'));
$copy->promote;
my $servers = '/zklock/positions/'
  . $writer->query('SELECT system_identifier FROM pg_control_system()') . '/servers';
wait_until('the copy answers, too', sub { keys %{ $zk->owners($servers) } == 2 });
$writer->query('CREATE TABLE more AS SELECT generate_series(1, 20000)');
is($reader->query('SELECT zk_caught_up()'), 't', 'the primary answers beside a copy');
$writer->close;
$primary->stop('immediate');
$copy->stop;
wait_until('the session of the primary has expired', sub { !%{ $zk->owners($servers) } });
like($reader->query('CALL zk_catch_up()'), $unproved, 'the end of a copy is not that of the primary');
is($reader->query($forget), '', 'the primary is forgotten');
is($reader->query('SELECT zk_caught_up()'), 't', '... so nothing is waited for');
is(source('state'), 'forgotten', '... which is shown');
restart_primary();
wait_until_it_answers();
$writer->close;
$primary->stop('immediate');
wait_until('the session of the primary has expired',
	sub { $reader->query(q(CALL zk_catch_up('100ms'))) =~ $silent });
pass('an answer ends that');

# ZooKeeper does not answer while the primary is shut down.
restart_primary('zklock.session_timeout' => '60s');
wait_until_it_answers();
$zk->pause;
my $begun = time();
$primary->stop;
cmp_ok(time() - $begun, '<', LONG, 'a shutdown does not wait for ZooKeeper');
$zk->resume;

done_testing();
