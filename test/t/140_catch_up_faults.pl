# A standby that catches up, while what it needs is in the way, gone, late or refused: it ends
# with the right error, or goes on by itself afterwards.
#
# Left out of make test: it takes long.
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkServer;
use ZkTest;

use constant {
	PROMPT => 5, # s within which an error must come that does not depend on a timeout
	RATE => 200,       # answers of a source, at most in a second
	READ => 1,         # ZooKeeper's permissions
	ALL => 31,
	CROWD => 40, # servers that have the same system identifier
};

my $zk = ZkServer->new(tick_time => 200)->start;
my $primary = new_primary(
	'primary', $zk->hosts,
	archive_mode => 'on',
	archive_command => 'true',
	max_wal_size => '32MB',
	min_wal_size => '32MB',
	max_standby_streaming_delay => -1,
	max_standby_archive_delay => -1);
my $writer = ZkTest->new($primary);
$writer->query('CREATE TABLE stock AS SELECT 0 AS n; CREATE TABLE old AS SELECT 1 AS n');
$writer->query('CREATE ROLE other LOGIN; CREATE DATABASE otherdb');
my $standby = new_standby('standby', $primary, wal_keep_size => 0);
my $reader = ZkTest->new($standby);
wait_until('the standby catches up', sub { $reader->query('SELECT zk_caught_up()') eq 't' });

# What they have in ZooKeeper
my $dir = '/zklock/positions/'
  . $writer->query('SELECT system_identifier FROM pg_control_system()');
my $client = ZkClient->new($zk->hosts);

# Returns the number of the last question, and that of the last one that this server answers.
sub question
{
	return $client->exists("$dir/asked")->{mzxid};
}

sub answered
{
	my ($server) = @_;
	my $node = $client->get("$dir/servers/$server");

	return $node && $node->{data} =~ /^1 ([0-9a-f]{16}) / ? hex($1) : 0;
}

# The WAL that a waiter looks at is removed before it does.
change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
my ($source) = $client->children("$dir/servers");
my $before = question();
$writer->query('UPDATE stock SET n = n + 1');
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
wait_until('the primary has answered',
	sub { question() > $before && answered($source) == question() });
kill('STOP', $reader->pid);
$writer->query("UPDATE stock SET n = n + 1; SELECT pg_switch_wal()") for 1 .. 4;
my $other = ZkTest->new($standby);
my $first = $other->query('SELECT min(name) FROM pg_ls_waldir()');
change_setting($standby, 'recovery_min_apply_delay', 0, $other);
wait_until(
	'the WAL is removed',
	sub {
		$_->query('CHECKPOINT') for $writer, $other;
		$other->query('SELECT min(name) FROM pg_ls_waldir()') gt $first;
	});
kill('CONT', $reader->pid);
is($reader->result, '', 'what has been replayed, and removed, is asked for again');

# More servers with the same system identifier than usual
my $crowd = ZkClient->new($zk->hosts);
$crowd->create("$dir/servers/" . sprintf('%016x', $_ * 7919), '', 1) for 1 .. CROWD;
is($reader->query(q(SELECT zk_caught_up('10s'))), 't', 'the source is found among many copies');
$crowd->close;

# Replay waits for the snapshot of another role, in this database or in another one. While it
# stands still, new transactions are not the cause, whatever they have read.
sub vacuum
{
	my ($table, @changes) = @_;

	$writer->query($_) for @changes, "VACUUM $table", 'UPDATE stock SET n = n + 1';
	wait_until(
		'replay waits for a snapshot',
		sub {
			$other->query(q(SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'startup')) eq
			  'RecoveryConflictSnapshot';
		});
	return;
}
my @row = ('INSERT INTO old VALUES (2)', 'DELETE FROM old WHERE n = 2');
$reader->query(q(SET zklock.catch_up_timeout = '3s'));
my $holder = ZkTest->new($standby);
$holder->query('SET SESSION AUTHORIZATION other');
$holder->query($_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1';
vacuum('old', @row);
is($reader->query('SELECT zk_caught_up()'), 'f', 'not our snapshot: a function');
$reader->query("SET $_ = 0")
  for qw(parallel_setup_cost parallel_tuple_cost min_parallel_table_scan_size);
my $parallel = 'SELECT zk_caught_up(), count(*) FROM stock';
like($reader->query("EXPLAIN $parallel"), qr/Gather/, '... in a parallel query');
is($reader->query($parallel), 'f|1', '... which is none of its errors');
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55P03: /m, '... CALL');
$reader->query($_) for 'BEGIN', 'SELECT n FROM stock';
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55P03: /m, '... a later statement');
$reader->query('ROLLBACK');
$reader->query($_) for 'BEGIN', 'DECLARE c CURSOR FOR SELECT n FROM stock', 'FETCH c';
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55P03: /m, '... with a new snapshot');
$reader->query('ROLLBACK');
$holder->query('ROLLBACK');
is($reader->query('SELECT zk_caught_up()'), 't', '... it goes on when that is gone');

# One that another transaction had
$holder->query($_) for 'BEGIN', 'DECLARE c CURSOR FOR SELECT generate_series(1, 9)', 'FETCH c';
vacuum('old', @row);
$holder->query('CLOSE c');
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55P03: /m, 'a snapshot that another one had: CALL');
is($reader->query('SELECT zk_caught_up()'), 'f', '... a function');
$holder->query('ROLLBACK');
is($reader->query('SELECT zk_caught_up()'), 't', '... it goes on when that is gone');

# One in another database, which is in the way of what all share, and of nothing else
my $elsewhere = ZkTest->new($standby, database => 'otherdb');
$elsewhere->query($_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1';
$reader->query($_) for 'BEGIN', 'DECLARE c CURSOR FOR SELECT n FROM stock', 'FETCH c';
vacuum('old', @row);
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  40001: /m, 'our snapshot, and one in another database');
$reader->query('ROLLBACK');
is($reader->query('SELECT zk_caught_up()'), 't', '... which is not in the way');
vacuum('pg_authid', 'CREATE ROLE shared', 'DROP ROLE shared');
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55P03: /m, 'not our snapshot, but one in another database');
$elsewhere->query('ROLLBACK');
is($reader->query('SELECT zk_caught_up()'), 't', '... it goes on when that is gone');

# A cycle through replay: it waits for a transaction that waits for who waits for replay.
for my $call ('CALL zk_catch_up()', 'SELECT zk_caught_up()')
{
	my $between = ZkTest->new($standby);

	$reader->query(acquire('/cycle'));
	$between->query($_) for 'BEGIN', 'SELECT n FROM old';
	$between->start(xact_acquire('/cycle'));
	$between->wait_for_lock;
	$writer->query('TRUNCATE old');
	like($reader->query($call),
		qr/^ERROR:  40001: .*\nDETAIL:  Replay conflicts with a transaction that waits for this one\.$/m,
		"$call: a cycle");
	$reader->query(q(SELECT zk_lock_release('/cycle')));
	is($between->result, 't', '... which the error ends');
	rollback($between);
	is($reader->query('SELECT zk_caught_up()'), 't', '... and replay goes on');
	$between->close;
}

# ZooKeeper is not there: before a question, and after it.
my $no_zookeeper = qr/^ERROR:  08001: could not connect to ZooKeeper$/m;
my ($answerer, $asker) = map {
	$_->query(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock WAL positions'))
} $writer, $reader;
sub times_logged
{
	my ($node) = @_;

	return () = slurp_file($node->logfile) =~ /ERROR:  could not connect to ZooKeeper$/mg;
}
sub catches_up
{
	wait_until('it catches up again', sub { $reader->query('SELECT zk_caught_up()') eq 't' });
	return;
}
$zk->stop;
my $begun = time();
like($reader->query($_), $no_zookeeper, "$_ without ZooKeeper") for 'CALL zk_catch_up()', 'SELECT zk_caught_up()';
cmp_ok(time() - $begun, '<', 2 * 3 + PROMPT, '... within catch_up_timeout');
$zk->start;
catches_up();
my $former = times_logged($primary);    # one, if that was longer than connect_timeout
change_setting($_, 'zklock.connect_timeout', '1s', ZkTest->new($_)) for $primary, $standby;
$client = ZkClient->new($zk->hosts);
$before = question();
kill('STOP', $answerer);
$reader->query(q(SET zklock.catch_up_timeout = '60s'));
$reader->start('CALL zk_catch_up()');
wait_until('the standby has asked', sub { question() > $before });
$zk->stop;
like($reader->result, $no_zookeeper, 'ZooKeeper stops after the question');
kill('CONT', $answerer);

# Each outage is logged once, by who answers, too.
for my $outage (1, 2)
{
	my %logged;

	wait_until('the outage is logged', sub { times_logged($primary) >= $former + $outage });
	$zk->start;
	catches_up();
	$logged{ $_->name } = times_logged($_) for $primary, $standby;
	is($logged{primary}, $former + $outage, "the primary has logged $outage outages");
	cmp_ok($logged{standby}, '>=', $outage, '... and the standby what it was asked for');
	$zk->stop;
	like($reader->query('CALL zk_catch_up()'), $no_zookeeper, '... the next one');
}
$zk->start;
catches_up();

# A node may not be read for a while. ZooKeeper takes watches on it away meanwhile.
sub permit
{
	my ($path, $permissions) = @_;

	$client->call('setACL', $path, $permissions);
	return;
}
$client = ZkClient->new($zk->hosts, 60_000);
wait_until('its session of before the outage has expired',
	sub { $client->children("$dir/servers") == 1 });
($source) = $client->children("$dir/servers");
for my $path ("$dir/asked", "$dir/servers/$source")
{
	permit($path, ALL - READ);
	isnt($reader->query(q(SELECT zk_caught_up('1s'))), 't', "$path may not be read");
	permit($path, ALL);
	catches_up();
	pass('... and is read again');
}

# How often the source answers, whoever asks. Nobody waits for the answers.
my $asks = q(DO $$ BEGIN LOOP PERFORM zk_caught_up('1us');
	EXIT WHEN clock_timestamp() > now() + interval '3s'; END LOOP; END $$);
my @askers = map { ZkTest->new($standby) } 1 .. 4;
my $answers = $client->get("$dir/servers/$source")->{version};
$begun = time();
$_->start($asks) for @askers;
$_->result for @askers;
catches_up();
my $took = time() - $begun;
$answers = $client->get("$dir/servers/$source")->{version} - $answers;
note(sprintf '%d answers in %.1f s', $answers, $took);
cmp_ok($answers, '<=', RATE * $took + 1, 'the source is not flooded');
cmp_ok($answers, '>', $took, '... and was asked');
$_->close for @askers;

# The server that was asked goes before it answers.
$answerer = $writer->query(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock WAL positions'));
$before = question();
kill('STOP', $answerer);
$reader->start('CALL zk_catch_up()');
wait_until('the standby has asked', sub { question() > $before });
$client->delete("$dir/servers/$source");
like($reader->result,
	qr/^ERROR:  55000: the server whose WAL is replayed here does not answer$/m,
	'the server that was asked is gone');
kill('CONT', $answerer);
catches_up();
($source) = $client->children("$dir/servers");

# A standby that only has an archive waits for it.
change_setting($primary, 'archive_command', 'cp "%p" "' . $primary->archive_dir . '/%f"', $writer);
my $archived = new_standby(
	'archived', $primary,
	primary_conninfo => '',
	restore_command => 'cp "' . $primary->archive_dir . '/%f" "%p"',
	wal_retrieve_retry_interval => '100ms');
my $in_archived = ZkTest->new($archived);
$writer->query('UPDATE stock SET n = n + 1');
like($in_archived->query(q(CALL zk_catch_up('1s'))),
	qr/^ERROR:  55P03: could not catch up in time\nDETAIL:  Replay has reached /m, 'not archived in time');
$in_archived->start('CALL zk_catch_up()');
$in_archived->wait_for_event('Extension');
$before = question();
wait_until('the primary has answered', sub { answered($source) == question() });
$writer->query('SELECT pg_switch_wal()');
is($in_archived->result, '', 'archived in time');
is($in_archived->query('SELECT n FROM stock'), $writer->query('SELECT n FROM stock'), '... it shows the data');

# The session is given up, as nobody needs it, before the process sees that it has no connection.
$_->close for $writer, $reader, $client;
build_zklock($primary, [], 'worker/walworker.c' => sub {
	s/^(?=\tif \(asker\.ticket == ticket && \(?is_complete)/\tif (session != 0 && !is_connected())
	{
		pg_usleep(1000000);
		zklock_session_refresh();
	}\n/m;
});
$standby->append_conf('postgresql.conf', qq(
	shared_preload_libraries = '${\ $primary->basedir}/zklock'
	dynamic_library_path = '${\ $primary->basedir}:\$libdir'));
$standby->restart;
($writer, $reader) = map { ZkTest->new($_) } $primary, $standby;
catches_up();
$client = ZkClient->new($zk->hosts);
$answerer = $writer->query(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock WAL positions'));
$before = question();
kill('STOP', $answerer);
$reader->start('CALL zk_catch_up()');
wait_until('the standby has asked', sub { question() > $before });
$zk->stop;
like($reader->result, $no_zookeeper, 'who waits is told that there is no session any more');
kill('CONT', $answerer);

done_testing();
