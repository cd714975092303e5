# Statements that an abort does not undo: a backend that has lost a lock gets
# the error before they begin, and nothing interrupts them after that.
#
# Runs first: it takes long.

use strict;
use warnings;

use Module;
use PgWire;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node(
	'main', $zk->hosts,
	max_prepared_transactions => 10,
	max_wal_senders => 5,
	wal_level => 'logical');
my $rival = ZkTest->new($node);
my $dir = $node->basedir;
my @proxied = (
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '1s',
	'zklock.connect_timeout' => '2s');

mkdir("$dir/$_") or die "$dir/$_: $!\n" for qw(old new);
$node->safe_psql('postgres', $_)
  for 'CREATE TABLE t (n int)',
  'CREATE DATABASE template',
  'CREATE DATABASE victim',
  "CREATE TABLESPACE old LOCATION '$dir/old'",
  q(SELECT pg_create_logical_replication_slot('slot', 'pgoutput')),
  "CREATE SUBSCRIPTION sub CONNECTION \$\$${\ $node->connstr('postgres')}\$\$
   PUBLICATION pub WITH (connect = false, slot_name = 'slot')",
  q(CREATE SUBSCRIPTION slotless CONNECTION '' PUBLICATION pub WITH (connect = false, slot_name = NONE)),
  map { "BEGIN; INSERT INTO t VALUES ($_); PREPARE TRANSACTION '$_'" } (1, 2);

# All that these statements can change
sub state_of
{
	return $node->safe_psql('postgres', q(
		SELECT n FROM t;
		SELECT 'prepared', gid FROM pg_prepared_xacts ORDER BY gid;
		SELECT datname, datconnlimit, dattablespace FROM pg_database ORDER BY 1;
		SELECT pg_ls_dir('base') ORDER BY 1;
		SELECT spcname FROM pg_tablespace ORDER BY 1;
		SELECT pg_ls_dir('pg_tblspc') ORDER BY 1;
		SELECT subname FROM pg_subscription;
		SELECT slot_name FROM pg_replication_slots));
}

# A session with a lock that take_over() takes from it without notice
sub holder
{
	my $session = ZkTest->new($node, @proxied);

	$session->query(q(SELECT zk_lock_acquire('/lost')));
	wait_for_queue($zk, '/lost', $session);
	return $session;
}

sub take_over
{
	$proxy->hold;
	is($rival->query(q(SELECT zk_lock_acquire('/lost'))),
		't', '... another backend acquires the lock');
	return;
}

sub settle
{
	my ($session) = @_;

	$session->close;
	$proxy->release;
	$rival->query(q(SELECT zk_lock_release('/lost')));
	wait_for_queue($zk, '/lost');
	return;
}

# The lock is lost before the statement. Each statement of this list can be run
# after the ones before it.
for my $sql (
	q(COMMIT PREPARED '1'),
	q(ROLLBACK PREPARED '2'),
	'CREATE DATABASE made',
	'ALTER DATABASE victim SET TABLESPACE old',
	'DROP DATABASE victim',
	"CREATE TABLESPACE new LOCATION '$dir/new'",
	'DROP TABLESPACE new',
	'DROP SUBSCRIPTION sub')
{
	my $before = state_of();
	my $session = holder();

	pass($sql);
	take_over();
	like($session->query($sql), qr{^ERROR:  40001: lock on "/lost" was lost}m,
		'... is refused');
	is(state_of(), $before, '... and has no effect');
	settle($session);

	$session = ZkTest->new($node);
	$session->query(q(SELECT zk_lock_acquire('/lost')));
	unlike($session->query($sql), qr/ERROR/, '... and can be retried');
	isnt(state_of(), $before, '... with effect');
	$session->query(q(SELECT zk_lock_release('/lost')));
	$session->close;
}

# The lock is lost during the statement, which waits for another transaction.
my $renames = 'ALTER DATABASE template RENAME TO other';
for ([ 'CREATE DATABASE copy TEMPLATE template', $renames ],
	[ 'DROP DATABASE template', $renames ],
	[ 'DROP SUBSCRIPTION slotless', 'LOCK pg_subscription' ])
{
	my ($sql, $other) = @$_;
	my $before = state_of();
	my $session = holder();
	my $brake = ZkTest->new($node);

	$brake->query("BEGIN; $other");
	$session->start($sql);
	$session->wait_for_event('Lock');
	pass("$sql, which waits");
	$proxy->mark;
	take_over();
	$proxy->release;
	$proxy->wait_frame(dir => 's2c', op => 'connect');
	$proxy->wait_idle;
	ok(!$session->is_done, '... continues to wait when the lock is lost');
	$brake->query('ROLLBACK');
	is($session->result, '', '... and completes');
	isnt(state_of(), $before, '... with effect');
	like($session->query('SELECT 1'),
		qr{^ERROR:  40001: lock on "/lost" was lost}m,
		'... the next statement gets the error');
	is($session->query('SELECT 1'), '1', '... and later ones do not');
	settle($session);
	$brake->close;
}

# A prepared transaction keeps the fence, but not the lock.
{
	my $session = ZkTest->new($node);

	is($session->query(q(SELECT zk_lock_acquire('/fenced');
			BEGIN;
			SELECT zk_lock_fence('/fenced') > 0;
			PREPARE TRANSACTION '3';
			SELECT zk_lock_release('/fenced');
			SELECT count(*) FROM zk_locks)),
		"t\nt\nt\n0", 'fenced lock can be released after PREPARE TRANSACTION');
is($rival->query(q(SELECT zk_lock_acquire('/fenced'))),
	't', '... and acquired by another backend');
	$rival->start(q(SELECT zk_lock_fence('/fenced') > 0));
	$rival->wait_for_event('Lock');
	$node->safe_psql('postgres', q(COMMIT PREPARED '3'));
	is($rival->result, 't', '... whose fence waits for COMMIT PREPARED');
	$rival->query('SELECT zk_lock_release_all()');
	$session->close;
}

# In a pipeline, more statements may follow in its transaction, whose commit is checked.
{
	my $brake = ZkTest->new($node);
	my $pipeline = "$dir/pipeline.sql";
	my $size = -s $node->logfile;

	append_to_file($pipeline, q(\startpipeline
ALTER DATABASE postgres CONNECTION LIMIT 50;
SELECT zk_lock_guard('/lost');
INSERT INTO t VALUES (50);
SELECT pg_advisory_xact_lock(1);
\endpipeline
));
	$brake->query('SELECT pg_advisory_lock(1)');
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=zklock -c zklock.confirm_commit=always';
	my $run = IPC::Run::start(
		[
			'pgbench', '-n', '-t', 1, '-M', 'extended', '-f', $pipeline,
			'-h', $node->host, '-p', $node->port, 'postgres'
		],
		'>', '/dev/null', '2>&1');
	wait_until('the pipeline waits', sub {
		$brake->query(q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)) == 1 });
	$zk->delete("/lost/$_") for $zk->children('/lost');
	$brake->query('SELECT pg_advisory_unlock(1)');
	$run->finish;
	like(substr(slurp_file($node->logfile), $size), qr{ERROR: .* lock on "/lost" was lost$}m,
		'a pipeline that begins so fails at its commit');
	is($node->safe_psql('postgres', q(SELECT count(*) FROM t WHERE n = 50)), '0',
		'... and has no effect');
	$brake->close;
}

# The client may also leave the end of that transaction until later.
my @checked = (session_preload_libraries => 'zklock', 'zklock.confirm_commit' => 'always');

# Executes a statement without the end of its transaction, and deletes the lock's node.
sub lose_after
{
	my ($client, @messages) = @_;

	$client->query(q(SELECT zk_lock_acquire('/lost')));
	$client->send(@messages, PgWire::flush());
	wait_until('the statement has ended', sub { $client->is_readable });
	$zk->delete("/lost/$_") for $zk->children('/lost');
	return;
}

sub statement
{
	my ($sql) = @_;

	return (PgWire::parsed($sql), PgWire::executed(0));
}

{
	my $lo_create = $node->safe_psql('postgres', q(SELECT 'lo_create(oid)'::regprocedure::oid));
	my %ends = (
		'its end' => [ [], [ PgWire::sync() ] ],
		'the end of a block' => [ [ statement('BEGIN') ], [ statement('COMMIT'), PgWire::sync() ] ]);

	# From PostgreSQL 18 on, a function call does not end the transaction of a pipeline, nor does
	# a Sync after it.
	$ends{'a function call'} = [ [], [ PgWire::call($lo_create, 123456) ] ]
	  if $node->safe_psql('postgres', 'SHOW server_version_num') < 180000;

	for my $name (sort keys %ends)
	{
		my ($before, $after) = @{ $ends{$name} };
		my $client = PgWire->new($node, @checked);

		lose_after($client, statement('ALTER DATABASE postgres CONNECTION LIMIT 60'), @$before);
		$client->send(@$after);
		like(($client->answers(1))[0], qr{ERROR 40001 lock on "/lost" was lost}, "$name is refused");
		is($node->safe_psql('postgres', q(SELECT datconnlimit FROM pg_database
				WHERE datname = 'postgres'; SELECT oid FROM pg_largeobject_metadata)),
			'-1', '... and nothing has changed');
		$client->close;
	}
}

# A statement that has moved a database has committed. What follows is refused, its end is not.
{
	my $client = PgWire->new($node, @checked);

	$node->safe_psql('postgres', 'CREATE DATABASE moved');
	lose_after($client, statement('ALTER DATABASE moved SET TABLESPACE old'));
	$client->send(PgWire::sync());
	is(($client->answers(1))[0], 'ALTER DATABASE', 'the end of a move is not refused');
	$client->query('SELECT zk_lock_release_all()');
	lose_after($client, statement('ALTER DATABASE moved SET TABLESPACE pg_default'));
	$client->send(statement('INSERT INTO t VALUES (60)'), PgWire::sync());
	like(($client->answers(1))[0], qr/ERROR 40001/, 'what follows a move is refused');
	is($node->safe_psql('postgres', q(SELECT count(*) FROM t WHERE n = 60;
			SELECT dattablespace = (SELECT dattablespace FROM pg_database WHERE datname = 'postgres')
			FROM pg_database WHERE datname = 'moved')), "0\nt", '... and undone, but the move is not');
	$client->close;
}

# The statement is cancelled after its work is done.
my $library = build_module('late_cancel');
$node->safe_psql('postgres', 'CREATE DATABASE victim');
my $session = ZkTest->new($node);
$session->query(qq(LOAD '$library'; LOAD 'zklock';
	SELECT zk_lock_acquire('/held')));
is($session->query('DROP DATABASE victim'),
	'', 'a late cancellation does not interrupt DROP DATABASE');
is( $node->safe_psql('postgres',
		q(SELECT count(*) FROM pg_database WHERE datname = 'victim')),
	'0',
	'... and the database is gone');
is($session->query('SELECT lost FROM zk_locks'), 'f', '... and the lock is held');

done_testing();
