# A subscriber that takes a lock reads what earlier holders have committed on the publisher, if
# it catches up. When a subscription counts as caught up, and how a wait ends otherwise. The
# publisher has neither zklock nor ZooKeeper, except where it subscribes itself.
#
# Left out of make test: it takes long.
# Runs once: the session in ZooKeeper does not matter.
# Shortened unless ZKLOCK_LONG is set: two changed libraries, not eight.

use strict;
use warnings;

use Docs;
use Module;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Sample;
use Template;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

use constant {
	ROUNDS => 20,
	CALLS => 100, # of each of several clients
	PROMPT => 10, # s within which an error must come that does not depend on a timeout
};

my $zk = ZkServer->new->start;
my %conf = (
	autovacuum => 'off',
	wal_level => 'logical',
	max_wal_senders => 12,
	max_replication_slots => 12,
	max_worker_processes => 16,
	max_logical_replication_workers => 8,
	wal_retrieve_retry_interval => '100ms');
my %of_zklock = (
	%conf,
	shared_preload_libraries => 'zklock',
	'zklock.catch_up' => 'off',
	'zklock.catch_up_timeout' => '60s');

sub new_publisher
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	init_node($node);
	$node->append_conf('postgresql.conf', "$_ = '$conf{$_}'") for sort keys %conf;
	$node->start;
	return $node;
}

sub create_table
{
	my ($name, @nodes) = @_;

	$_->safe_psql('postgres', "CREATE TABLE $name (id int PRIMARY KEY, n int)") for @nodes;
	return;
}

sub publish
{
	my ($node, $publication, @tables) = @_;
	my $tables = join(', ', @tables);

	$node->safe_psql('postgres', "CREATE PUBLICATION $publication FOR TABLE $tables");
	return;
}

sub wait_until_synchronized
{
	my ($node) = @_;

	$node->poll_query_until('postgres',
		q(SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')))
	  or die "tables are not synchronized\n";
	return;
}

sub subscribe
{
	my ($node, $name, $other, $options) = @_;

	$node->safe_psql('postgres', sprintf(
		q(CREATE SUBSCRIPTION %s CONNECTION '%s dbname=postgres' PUBLICATION %s %s),
		$name, $other->connstr, $name, $options // ''));
	wait_until_synchronized($node);
	return;
}

# Returns the pid of the process that applies the changes of a subscription, once it does.
sub apply_worker
{
	my ($node, $name) = @_;

	return wait_until("subscription $name has a worker", sub {
		$node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_subscription
			 WHERE subname = '$name' AND relid IS NULL AND latest_end_lsn IS NOT NULL");
	});
}

sub suspended
{
	my ($pid, $code) = @_;

	kill('STOP', $pid);
	wait_until('it is suspended', sub { is_suspended($pid) });
	my $result = eval { $code->() };
	my $error = $@;
	kill('CONT', $pid);
	die $error if $error;
	return $result;
}

my $publisher = new_publisher('publisher');
my $subscriber = new_node('subscriber', $zk->hosts, %of_zklock);
create_table($_, $publisher, $subscriber) for qw(stock later);
publish($publisher, 'orders', 'stock');
my $writer = ZkTest->new($publisher);
$writer->query('INSERT INTO stock VALUES (1, 0)');
my $reader = ZkTest->new($subscriber);

is($reader->query('CALL zk_catch_up()'), '', 'nothing to do without a subscription');
subscribe($subscriber, 'orders', $publisher);

sub write_stock
{
	$writer->query('UPDATE stock SET n = n + 1 WHERE id = 1 RETURNING n');
}

sub read_stock
{
	return $reader->query('SELECT n FROM stock WHERE id = 1');
}

# Writes until the worker has received a commit, and waits for a synchronous standby that does
# not exist. Returns what was written last, after which nothing was.
sub write_invisibly
{
	my ($session) = @_;
	my ($wrote, $held);

	$subscriber->safe_psql('postgres', q(ALTER SUBSCRIPTION orders SET (synchronous_commit = 'on')));
	change_setting($subscriber, 'synchronous_standby_names', 'nobody');
	while (!$held)
	{
		$wrote = write_stock();
		wait_until('the worker waits for the standby, or has applied the change', sub {
			$held = $session->query(q(SELECT count(*) FROM pg_stat_activity
				WHERE backend_type LIKE 'logical replication %worker' AND wait_event = 'SyncRep'));
			return $held || $session->query('SELECT n FROM stock WHERE id = 1') eq $wrote;
		});
	}
	return $wrote;
}

# Each reads what was written before the call.
my (@wrote, @read);
my (undef, $example) = code_blocks('docs/high-availability.md', 'sql');
for my $catch_up ($example, 'SELECT zk_caught_up()',
	q(SET zklock.catch_up = 'guard'; SELECT zk_lock_guard('/stock')))
{
	for (1 .. ROUNDS)
	{
		push @wrote, write_stock();
		$reader->query($catch_up);
		push @read, read_stock();
	}
}
is("@read", "@wrote", 'each reads what was written');
$reader->query('RESET zklock.catch_up');

# So does each lock, if it is told to: one that is held already, and has not.
$subscriber->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
for my $mode (qw(server backend))
{
	my $session = ZkTest->new($subscriber, 'zklock.session_mode' => $mode, 'zklock.advisory_locks' => 'both');

	for my $lock (q(SELECT zk_lock_acquire('/one')), q(SELECT zk_lock_acquire_all('{/one,/two}')),
		q(SELECT zk_semaphore_acquire('/semaphore', 2)), 'SELECT pg_advisory_lock(1)')
	{
		my $count = q(SELECT sum(catch_ups) FROM zk_sources);
		my $before = $session->query($count);

		$session->query("SET zklock.catch_up = 'off'; $lock");
		is($session->query($count) - $before, 0, "mode $mode, $lock: \"off\" asks nothing");
		my $wrote = write_stock();
		$session->query("SET zklock.catch_up = 'all'; $lock");
		is($session->query('SELECT n FROM stock WHERE id = 1'), $wrote, '... "all" shows what was written');
		$session->query($lock);
		is($session->query($count) - $before, 1, '... and asks once');

		$session->query('SELECT zk_lock_release_all()');
		suspended(apply_worker($subscriber, 'orders'), sub {
			write_stock();
			like($session->query("SET zklock.catch_up_timeout = '300ms'; $lock"),
				qr/^ERROR:  55P03: could not catch up in time$/m, '... or gives the lock back');
			is($session->query(q(SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid())), '0', '... at once');
		});
		$session->query('RESET zklock.catch_up_timeout');
		$reader->query('CALL zk_catch_up()');
	}
	$session->close;
}

$subscriber->safe_psql('postgres', 'DROP EXTENSION zklock_advisory');

# A trigger of the worker takes a lock without that, since the worker would wait for itself.
$subscriber->safe_psql('postgres', q(
	CREATE FUNCTION take_lock() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM public.zk_lock_acquire('/trigger', scope => 'transaction'); RETURN NEW; END $$;
	CREATE TRIGGER take_lock BEFORE UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION take_lock();
	ALTER TABLE stock ENABLE ALWAYS TRIGGER take_lock));
change_setting($subscriber, 'zklock.catch_up', 'all', $reader);
my $applied = write_stock();
wait_until('the worker applies a change under a lock', sub { read_stock() eq $applied });
pass('a trigger of the worker takes a lock');
change_setting($subscriber, 'zklock.catch_up', 'off', $reader);
$subscriber->safe_psql('postgres', 'DROP FUNCTION take_lock() CASCADE');

# Asynchronous commits, whose records are not flushed yet
$writer->query('SET synchronous_commit = off');
(@wrote, @read) = ();
for (1 .. ROUNDS)
{
	push @wrote, write_stock();
	$reader->query('CALL zk_catch_up()');
	push @read, read_stock();
}
is("@read", "@wrote", '... also with asynchronous commits');
$writer->query('RESET synchronous_commit');

# A worker that waits for a synchronous standby has received all, and the row is not visible.
my $now = write_invisibly($reader);
cmp_ok(read_stock(), '<', $now, 'a row is received, and not visible');
is($reader->query(q(SELECT zk_caught_up('1s'))), 'f', '... so it has not caught up');
like($reader->query(q(CALL zk_catch_up('1s'))),
	qr/^ERROR:  55P03: could not catch up in time\nDETAIL:  Subscription "orders" has received .*, which is [1-9]\d* bytes further\./m,
	'... or an error that says by how much');
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
change_setting($subscriber, 'synchronous_standby_names', '');
is($reader->result, '', '... until it is visible');
is(read_stock(), $now, '... and is read');
$subscriber->safe_psql('postgres', q(ALTER SUBSCRIPTION orders SET (synchronous_commit = 'off')));

# A worker that is suspended, and a wait that is cancelled
suspended(apply_worker($subscriber, 'orders'), sub {
	write_stock();
	is($reader->query(q(SELECT zk_caught_up('300ms'))), 'f', 'a suspended worker');
	$reader->start('CALL zk_catch_up()');
	$reader->wait_for_event('Extension');
	my $other = ZkTest->new($subscriber);
	is($other->query("SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE pid = ${\ $reader->pid}"),
		't', '... is waited for without a snapshot');
	$other->close;
	kill('INT', $reader->pid);
	like($reader->result, qr/^ERROR:  57014/m, '... by a wait that can be cancelled');
});
is($reader->query('SELECT zk_caught_up()'), 't', '... and then goes on');

# A subscription that does not run
sub refused
{
	my ($detail, $what) = @_;
	my $begun = time();

	like($reader->query('CALL zk_catch_up()'),
		qr/^ERROR:  55000: subscription "orders" cannot catch up\nDETAIL:  $detail$/m, $what);
	cmp_ok(time() - $begun, '<', PROMPT, '... which is told at once');
	return;
}

$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders DISABLE');
refused('It is disabled\.', 'a disabled subscription');
my ($block) = sql_blocks('docs/operations.md', 'Servers that catch up');
like($reader->query($block->{statements}[0][0]), qr/^subscription\|orders\|disabled\|/, '... which the page finds');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders ENABLE');
my $worker = apply_worker($subscriber, 'orders');
change_setting($subscriber, 'wal_retrieve_retry_interval', '1d', $reader);
kill('TERM', $worker);
wait_until('it has ended', sub { !kill(0, $worker) });
refused('It has no apply worker\.', 'a subscription without a worker');
change_setting($subscriber, 'wal_retrieve_retry_interval', '100ms', $reader);
apply_worker($subscriber, 'orders');

# Has the publisher answered since then?
sub has_answered
{
	my ($since) = @_;

	return $writer->query("SELECT count(*) FROM pg_stat_activity
		WHERE application_name = 'zklock' AND state = 'idle' AND query_start > '$since'");
}

sub now
{
	return $writer->query('SELECT clock_timestamp()');
}

# ... or stops during the wait
sub refused_in_wait
{
	my ($code, $error, $what) = @_;

	suspended($worker, sub {
		write_stock();
		my $before = now();
		$reader->start('CALL zk_catch_up()');
		wait_until('the publisher has answered', sub {
			die $reader->result . "\n" if $reader->is_done;
			has_answered($before);
		});
		$code->();
	});
	like($reader->result, qr/^ERROR:  $error$/m, $what);
	return;
}
$worker = apply_worker($subscriber, 'orders');
refused_in_wait(sub { $subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders DISABLE') },
	qq(55000: subscription "orders" cannot catch up\nDETAIL:  It is disabled\\.),
	'a subscription that is disabled meanwhile');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders ENABLE');
$worker = apply_worker($subscriber, 'orders');

# A table that cannot be synchronized, because a row exists already
$publisher->safe_psql('postgres', 'INSERT INTO later VALUES (1, 1); ALTER PUBLICATION orders ADD TABLE later');
$subscriber->safe_psql('postgres', 'INSERT INTO later VALUES (1, 2)');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders REFRESH PUBLICATION');
refused('Table "later" is not synchronized yet\.', 'a table that is not synchronized');
$subscriber->safe_psql('postgres', 'DELETE FROM later');
wait_until_synchronized($subscriber);
is($reader->query('CALL zk_catch_up(); SELECT n FROM later'), '1', '... and one that is');

# A transaction that has written what the worker has to change
$reader->query('BEGIN; UPDATE stock SET n = n WHERE id = 1');
write_stock();
my $begun = time();
like($reader->query('CALL zk_catch_up()'),
	qr/^WARNING:  01000: the transaction has written before it catches up\n.*^ERROR:  40P01: deadlock detected$/ms,
	'the worker waits for a row of the transaction');
cmp_ok(time() - $begun, '<', PROMPT, '... which is told soon');
$reader->query('ROLLBACK');
is($reader->query('SELECT zk_caught_up()'), 't', '... and goes on after a rollback');

# ... or through another process
my $other = ZkTest->new($subscriber);
$subscriber->safe_psql('postgres', 'CREATE TABLE own (n int)');
$other->query('BEGIN; UPDATE stock SET n = n WHERE id = 1');
$reader->query('BEGIN; LOCK own');
$other->start('LOCK own');
$other->wait_for_event('Lock');
write_stock();
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  40P01: deadlock detected$/m,
	'... or through another process');
$_->query('ROLLBACK') for $reader, $other;

# ... or through another process that waits in ZooKeeper, for the lock of a guard. After a
# wait that has failed, the guard would not take it.
$reader->query('CALL zk_catch_up()');
$other->query('BEGIN; UPDATE stock SET n = n WHERE id = 1');
write_stock();
$reader->start(q(SET zklock.catch_up = 'guard'; BEGIN; SELECT zk_lock_guard('/stock')));
wait_until('the guard has its lock', sub {
	$subscriber->safe_psql('postgres',
		q(SELECT count(*) FROM zk_locks WHERE path = '/stock' AND granted)) eq '1';
});
$other->start(q(SELECT zk_lock_acquire('/stock')));
like($reader->result, qr/^ERROR:  40P01: deadlock detected$/m,
	'... or through another process that waits in ZooKeeper');
is($other->result, 't', '... and gets the lock then');
$other->query('ROLLBACK; SELECT zk_lock_release_all()');
is($reader->query(q(ROLLBACK; BEGIN; SELECT zk_lock_guard('/stock') > 0; COMMIT; RESET zklock.catch_up)),
	't', '... so the other one can try again');

# A worker that has been restarted in a moment, perhaps with another publisher
$reader->query('CALL zk_catch_up()');
suspended(apply_worker($subscriber, 'orders'), sub {
	my $before = now();
	write_stock();
	$reader->start('CALL zk_catch_up()');
	wait_until('the publisher has answered', sub { has_answered($before) });
	$before = now();
	suspended($reader->pid, sub {
		$worker = apply_worker($subscriber, 'orders');
		kill($_, $worker) for 'TERM', 'CONT';
		wait_until('it has been restarted', sub {
			!kill(0, $worker) && apply_worker($subscriber, 'orders');
		});
	});
	is($reader->result, '', 'a worker that has been restarted');
	ok(has_answered($before), '... for which the publisher is asked again');
});

# Of two subscriptions, the second one is not applied: it waits for the transaction.
create_table('other', $publisher, $subscriber);
$publisher->safe_psql('postgres', 'INSERT INTO other VALUES (1, 0)');
publish($publisher, 'second', 'other');
subscribe($subscriber, 'second', $publisher);
apply_worker($subscriber, 'second');
$reader->query('CALL zk_catch_up()');
suspended(apply_worker($subscriber, 'orders'), sub {
	write_stock();
	$reader->query('BEGIN; UPDATE other SET n = n WHERE id = 1');
	$writer->query('UPDATE other SET n = 0');
	like($reader->query(q(CALL zk_catch_up('4s'))), qr/^ERROR:  40P01: deadlock detected$/m,
		'the worker of a second subscription waits for a row of the transaction');
	$reader->query('ROLLBACK');
});

# ... or was disabled when the publishers were asked
$reader->query('CALL zk_catch_up()');
my $questioner = $reader->query(
	q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock publishers'));
$other->query('BEGIN; UPDATE other SET n = n WHERE id = 1');
my $before = suspended(apply_worker($subscriber, 'orders'), sub {
	my $before = now();
	write_stock();
	$writer->query('UPDATE other SET n = 1');
	suspended($questioner, sub {
		$reader->start('CALL zk_catch_up(); SELECT n FROM other');
		$reader->wait_for_event('Extension');
		$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION second DISABLE');
		$worker = $subscriber->safe_psql('postgres',
			q(SELECT pid FROM pg_stat_subscription WHERE subname = 'second'));
		kill('TERM', $worker) if $worker;
		wait_until('it has ended', sub { !$worker || !kill(0, $worker) });
	});
	wait_until('the publisher has answered', sub { has_answered($before) });
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION second ENABLE');
	wait_until('its worker waits', sub {
		$subscriber->safe_psql('postgres', q(SELECT count(*) FROM pg_stat_activity
			WHERE backend_type LIKE 'logical replication %worker' AND wait_event_type = 'Lock'));
	});
	return now();
});
wait_until('it waits for both', sub { $reader->is_done || has_answered($before) });
$other->query('ROLLBACK');
is($reader->result, '1', 'a subscription that was disabled for a moment is waited for');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION second');
$other->close;

# The view has them all.
is( $reader->query(q(SELECT kind, name, state, catch_ups > 0, failures > 0, wait_time > 0, bytes_behind
		FROM zk_sources)),
	'subscription|orders|applies|t|t|t|0', 'zk_sources');

# At REPEATABLE READ, the snapshot stays.
like($reader->query('BEGIN ISOLATION LEVEL REPEATABLE READ; CALL zk_catch_up()'), qr/^ERROR:  25001/m,
	'at REPEATABLE READ');
$reader->query('ROLLBACK');

# What a role can cost the publisher: calls share questions, and these are paced.
$subscriber->safe_psql('postgres', 'CREATE ROLE anyone LOGIN');
my @many = map { ZkTest->new($subscriber, role => 'anyone') } 1 .. 4;
my $count = sub { $writer->query('SELECT txid_current()') };
my $first = $count->();
$begun = time();
my $loop = sprintf(q(DO $$BEGIN FOR i IN 1..%d LOOP PERFORM zk_caught_up(); END LOOP; END$$), CALLS);
$_->start($loop) for @many;
is(join('', map { $_->result } @many), '', 'calls of several clients');
cmp_ok($count->() - $first - 1, '<=', 100 * (time() - $begun) + 2, '... ask a hundred times a second at most');
like($many[0]->query(q(CALL zk_catch_up(visited => '{x}'))), qr/^ERROR:  42501/m,
	'only servers say whom they have visited');
$_->close for @many;

my $postmaster = (split(/\n/, slurp_file($publisher->data_dir . '/postmaster.pid')))[0];
my $asked = wait_until('there is one', sub {
	$reader->query('SELECT zk_caught_up()');
	$writer->query(q(SELECT pid FROM pg_stat_activity WHERE application_name = 'zklock'));
});

# Who waits for long, and is answered, leaves no time to the next question. It looks for its
# answer several times while another wait lasts.
$writer->query('SELECT pg_advisory_lock(1)');
suspended($asked, sub {
	$reader->start('SELECT zk_caught_up()');
	$reader->wait_for_event('Extension');
	my $other = ZkTest->new($publisher);
	$other->query(q(SET lock_timeout = '500ms'));
	like($other->query('SELECT pg_advisory_lock(1)'), qr/^ERROR:  55P03/m, 'an answer is late');
	$other->close;
});
$writer->query('SELECT pg_advisory_unlock(1)');
is($reader->result, 't', '... and there is one');

# A publisher that does not answer, nor to another connection. How long each may wait is its own
# setting, and not that of the process which asks.
$reader->query(q(SET zklock.catch_up_timeout = '60s'));
change_setting($subscriber, 'zklock.catch_up_timeout', '500ms');
suspended($postmaster, sub { suspended($asked, sub {
	my $observer = ZkTest->new($subscriber);
	my $questioner =
	  q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock publishers');

	is($reader->query(q(SELECT zk_caught_up('1500ms'))), 'f', 'no answer');
	is($reader->query(q(SELECT zk_caught_up('500ms'))), 'f', '... nor to another question');
	$reader->start(q(SELECT zk_caught_up('3s')));
	$reader->wait_for_event('Extension');
	ok(wait_until('there is none', sub { $observer->query("$questioner AND backend_xmin IS NULL") }),
		'... and no snapshot meanwhile');
	is($reader->result, 'f', '... so it has not caught up');
	change_setting($subscriber, 'zklock.catch_up_timeout', '1min', $observer);
	is($reader->query(q(SELECT zk_caught_up('300ms'))), 'f', 'when nobody waits any more');
	cmp_ok(seconds_of(sub {
		wait_until('it has ended', sub { $observer->query($questioner) eq '' });
	}), '<', PROMPT, '... nothing is asked');
	$observer->close;
}) });
$reader->query('RESET zklock.catch_up_timeout');

# ... or ends: its process for the questions is suspended, and then it accepts no others.
$asked = wait_until('there is one', sub {
	$reader->query('SELECT zk_caught_up()');
	$writer->query(q(SELECT pid FROM pg_stat_activity WHERE application_name = 'zklock'));
});
suspended($asked, sub {
	like($reader->query(q(CALL zk_catch_up('300ms'))),
		qr/^ERROR:  55P03: could not catch up in time\nDETAIL:  The sources have not answered for \d+ ms\.$/m,
		'a publisher that does not answer');
	suspended($postmaster, sub {
		$reader->start('CALL zk_catch_up()');
		$reader->wait_for_event('Extension');
		kill('QUIT', $postmaster);
	});
	wait_until('it has ended', sub { !kill(0, $postmaster) });
});
$publisher->stop('immediate', fail_ok => 1);
like($reader->result, qr/^ERROR:  (?:08001|55000)/m, '... and ends');
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  (?:08001|55000)/m, '... and is down');
$publisher->start;
$writer->close;
$writer = ZkTest->new($publisher);
$now = write_stock();
wait_until('the publisher answers', sub { $reader->query('SELECT zk_caught_up()') eq 't' });
is(read_stock(), $now, 'a publisher that has been restarted');

# It ends after it has answered.  A worker that is started again makes the subscriber ask again.
$worker = apply_worker($subscriber, 'orders');
refused_in_wait(sub { $publisher->stop('immediate') },
	qq{(?:55000: subscription "orders" cannot catch up\nDETAIL:  It has no apply worker\\.} .
	qq{|08001: could not connect to the publisher of subscription "orders")},
	'a publisher that ends after its answer');
$publisher->start;
$writer->close;
$writer = ZkTest->new($publisher);
wait_until('the publisher answers', sub { $reader->query('SELECT zk_caught_up()') eq 't' });

# A connection string with several servers, that leads to another one now
my $copy = new_publisher('copy');
my $hosts = sprintf('host=%s,%s port=%s,%s dbname=postgres target_session_attrs=read-write',
	$publisher->host, $copy->host, $publisher->port, $copy->port);
$subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION orders CONNECTION '$hosts'");
wait_until('it answers', sub { $reader->query('SELECT zk_caught_up()') eq 't' });
change_setting($publisher, 'default_transaction_read_only', 'on', $writer);
$publisher->safe_psql('postgres',
	q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'zklock'));
like($reader->query('CALL zk_catch_up()'),
	qr/^ERROR:  55000: could not ask the publisher of subscription "orders"\nDETAIL:  The subscription's slot is not in use/m,
	'a connection string that leads to another server');
$publisher->safe_psql('postgres', 'SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only');
$publisher->reload;
wait_until('it answers', sub { $reader->query('SELECT zk_caught_up()') eq 't' });
$copy->stop;

# A connection that cannot be made, and the secret in its string
my $logged = -s $subscriber->logfile;
suspended(apply_worker($subscriber, 'orders'), sub {
	$subscriber->safe_psql('postgres', sprintf(
		q(ALTER SUBSCRIPTION orders CONNECTION '%s dbname=none password=secret'), $publisher->connstr));
	wait_until('the connection is made anew', sub {
		$reader->query('CALL zk_catch_up()') =~ /^ERROR:  08001: could not connect to the publisher of subscription "orders"\nHINT:  .*$/m;
	});
});
$subscriber->wait_for_log(
	qr/could not connect to the publisher of subscription "orders"\n.*database "none" does not exist/, $logged);
pass('a connection that cannot be made');
my $log = slurp_file($subscriber->logfile, $logged);
unlike($log =~ s/ALTER SUBSCRIPTION.*//gr, qr/secret/, '... without its secret');
$subscriber->safe_psql('postgres', sprintf(
	q(ALTER SUBSCRIPTION orders CONNECTION '%s dbname=postgres'), $publisher->connstr));
wait_until('it answers', sub { $reader->query('SELECT zk_caught_up()') eq 't' });

# A publisher whose functions have been replaced, with any answer that they can give
sub redefined
{
	my ($function, $body, $code) = @_;
	my $before = $publisher->safe_psql('postgres', "SELECT pg_get_functiondef('$function'::regprocedure)");

	# PostgreSQL calls its own functions without a look at their definitions, unless the planner
	# replaces the call by the body.
	$publisher->safe_psql('postgres', $before =~ s/LANGUAGE internal/LANGUAGE sql/r =~ s/ STRICT//r =~
		  s/AS \$function\$.*/AS \$function\$$body\$function\$/sr);
	my $result = $code->();
	$publisher->safe_psql('postgres', $before);
	wait_until('it answers', sub { $reader->query('SELECT zk_caught_up()') eq 't' });
	return $result;
}
my $emit = sprintf('pg_logical_emit_message(bool, text, text%s)',
	$publisher->safe_psql('postgres', 'SHOW server_version_num') < 170000 ? '' : ', bool');
for my $answer (
	[ 'pg_is_in_recovery()', 'SELECT NULL::bool', 'whether it is a standby' ],
	[ $emit, 'SELECT NULL::pg_lsn', 'a position' ],
	[ $emit, q(SELECT '0/0'::pg_lsn), 'a position that is one' ])
{
	my ($function, $body, $what) = @$answer;

	like(redefined($function, $body, sub { $reader->query('CALL zk_catch_up()') }),
		qr/^ERROR:  55000: could not ask the publisher of subscription "orders"\nDETAIL:  Its answer is not valid\.$/m,
		"a publisher that does not say $what");
}
$logged = -s $subscriber->logfile;
$publisher->safe_psql('postgres', q(CREATE FUNCTION much() RETURNS pg_lsn LANGUAGE plpgsql AS
	$$BEGIN RAISE '%', repeat('x', 1000000); END$$));
like(redefined($emit, 'SELECT public.much()', sub { $reader->query('CALL zk_catch_up()') }),
	qr/^ERROR:  55000: .*\nDETAIL:  Its answer is: ERROR:  x{100,250}$/m, '... or much too much');
cmp_ok(-s $subscriber->logfile, '<', $logged + 100_000, '... also for the log');

# A chain: the subscriber is itself a publisher, and catches up first.
my $third = new_node('third', $zk->hosts, %of_zklock);
create_table($_, $third) for qw(stock later);
publish($subscriber, 'onwards', 'stock');
subscribe($third, 'onwards', $subscriber);
my $at_end = ZkTest->new($third);
suspended(apply_worker($subscriber, 'orders'), sub {
	$now = write_stock();
	is($at_end->query(q(SELECT zk_caught_up('500ms'))), 'f', 'a chain whose middle has not caught up');
});
wait_until('the chain answers', sub { $at_end->query('SELECT zk_caught_up()') eq 't' });
is($at_end->query('SELECT n FROM stock'), $now, '... and has then');
(@wrote, @read) = ();
for (1 .. ROUNDS)
{
	push @wrote, write_stock();
	$at_end->query('CALL zk_catch_up()');
	push @read, $at_end->query('SELECT n FROM stock');
}
is("@read", "@wrote", '... each reads what was written');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders DISABLE');
like($at_end->query('CALL zk_catch_up()'),
	qr/^ERROR:  55000: could not ask the publisher of subscription "onwards"\nDETAIL:  .*subscription "orders" cannot catch up/m,
	'... a middle that cannot');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders ENABLE');
apply_worker($subscriber, 'orders');
$reader->query('DROP EXTENSION zklock');
wait_until('it is told', sub {
	$at_end->query('CALL zk_catch_up()') =~ /^ERROR:  55000: .*\nDETAIL:  It is a standby or has sources itself, and does not have/m;
});
pass('... and a middle that does not have the extension');
$reader->query('CREATE EXTENSION zklock');
wait_until('the chain answers', sub { $at_end->query('SELECT zk_caught_up()') eq 't' });

# Servers that subscribe to each other
create_table('back', $subscriber, $third);
publish($third, 'backwards', 'back');
subscribe($subscriber, 'backwards', $third);
$at_end->query('INSERT INTO back VALUES (1, 0)');
(@wrote, @read) = ();
for (1 .. ROUNDS)
{
	push @wrote, write_stock(), $at_end->query('UPDATE back SET n = n + 1 RETURNING n');
	$_->start('CALL zk_catch_up()') for $reader, $at_end;
	is($_->result, '', 'both at once') for $reader, $at_end;
	push @read, $at_end->query('SELECT n FROM stock'), $reader->query('SELECT n FROM back');
}
is("@read", "@wrote", 'servers that subscribe to each other');

# A standby of a subscriber
$subscriber->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($subscriber, 'standby', has_streaming => 1);
$standby->start;
like(ZkTest->new($standby)->query('CALL zk_catch_up()'), qr/^ERROR:  0A000/m, 'a standby of a subscriber');
$standby->stop;

SKIP:
{
	skip 'origin = none, and subscriptions to a standby, since PostgreSQL 16', 1
	  if $publisher->safe_psql('postgres', 'SHOW server_version_num') < 160000;

	# Two servers that replicate each other
	my @pair = map { new_node($_, $zk->hosts, %of_zklock) } qw(one two);
	create_table('mutual', @pair);
	publish($pair[$_], "from$_", 'mutual') for 0, 1;
	subscribe($pair[ 1 - $_ ], "from$_", $pair[$_], 'WITH (origin = none, copy_data = false)') for 0, 1;
	my @sessions = map { ZkTest->new($_) } @pair;
	$sessions[0]->query('INSERT INTO mutual VALUES (1, 0)');
	my @seen;
	for (1 .. ROUNDS)
	{
		push @seen, map { $_->query('CALL zk_catch_up(); UPDATE mutual SET n = n + 1 RETURNING n') } @sessions;
	}
	is("@seen", join(' ', 1 .. 2 * ROUNDS), 'servers that replicate each other take turns');

	# What such a server receives is what was written there, so that one does not catch up first.
	suspended(apply_worker($pair[0], 'from1'), sub {
		$sessions[1]->query('UPDATE mutual SET n = 0');
		is($sessions[1]->query('SELECT zk_caught_up()'), 't', '... each waits for the other one only');
	});
	$_->stop for @pair;

	# A publisher that is a standby, which catches up first
	my $source = new_node('source', $zk->hosts, %of_zklock, 'zklock.answer_positions' => 'on',
		hot_standby_feedback => 'on');
	create_table('stock', $source, my $last = new_node('last', $zk->hosts, %of_zklock));
	publish($source, 'standby', 'stock');
	$source->backup('copy');
	my $copy_of = PostgreSQL::Test::Cluster->new('copy_of_source');
	$copy_of->init_from_backup($source, 'copy', has_streaming => 1);
	$copy_of->start;
	my $at_source = ZkTest->new($source);
	my $at_last = ZkTest->new($last);
	$at_last->start(sprintf(
		q(CREATE SUBSCRIPTION standby CONNECTION '%s dbname=postgres' PUBLICATION standby),
		$copy_of->connstr));

	# A slot is made when the standby has replayed a list of transactions, also that of a table.
	my $list = sub { $at_source->query('SELECT pg_log_standby_snapshot() IS NULL'); 0 };
	wait_until('there is a subscription', sub { $list->() || $at_last->is_done });
	wait_until('it is synchronized', sub {
		$list->() || $last->safe_psql('postgres',
			q(SELECT count(*) = 1 FROM pg_subscription_rel WHERE srsubstate = 'r')) eq 't';
	});
	$at_source->query('INSERT INTO stock VALUES (1, 0)');
	@seen = ();
	for (1 .. ROUNDS)
	{
		$at_source->query('UPDATE stock SET n = n + 1');
		push @seen, $at_last->query('CALL zk_catch_up(); SELECT n FROM stock');
	}
	is("@seen", join(' ', 1 .. ROUNDS), 'a subscription to a standby');
	change_setting($copy_of, 'recovery_min_apply_delay', '1h', ZkTest->new($copy_of));
	$at_source->query('UPDATE stock SET n = n + 1');
	is($at_last->query(q(SELECT zk_caught_up('500ms'))), 'f', '... that has not replayed what was written');
	$_->stop for $last, $copy_of, $source;
}

# Nobody who has dropped a subscription waits, and the database can be dropped.
$subscriber->safe_psql('postgres', 'CREATE DATABASE short');
$publisher->safe_psql('postgres', 'CREATE PUBLICATION short');
$subscriber->safe_psql('short', 'CREATE EXTENSION zklock');
$subscriber->safe_psql('short', sprintf(
	q(CREATE SUBSCRIPTION short CONNECTION '%s dbname=postgres' PUBLICATION short), $publisher->connstr));
wait_until('it is there',
	sub { eval { $subscriber->safe_psql('short', 'CALL zk_catch_up()'); 1 } });

# ... for those who are connected when the database does not allow that any more
wait_until('nobody asks', sub {
	$subscriber->safe_psql('postgres',
		q(SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'zklock publishers' AND datname = 'short')) eq 't';
});
my $connected = ZkTest->new($subscriber, database => 'short');
$subscriber->safe_psql('postgres', 'ALTER DATABASE short ALLOW_CONNECTIONS false');
is($connected->query('SELECT zk_caught_up()'), 't', 'a database that does not allow connections');
$connected->close;
$subscriber->safe_psql('postgres', 'ALTER DATABASE short ALLOW_CONNECTIONS true');
$subscriber->safe_psql('short', 'DROP SUBSCRIPTION short');
is($subscriber->safe_psql('short', 'SELECT zk_caught_up()'), 't', 'a subscription that was dropped');
$subscriber->safe_psql('postgres', 'DROP DATABASE short');
pass('... and its database');

# No process is left for the worker, because the launcher, the apply workers and those of zklock
# are all that there can be; or the library is not preloaded.
my $small = new_node('small', $zk->hosts, %of_zklock, max_worker_processes => 5);
create_table('stock', $small);
publish($publisher, 'few', 'stock');
subscribe($small, 'few', $publisher, 'WITH (copy_data = false)');
apply_worker($small, 'few');

sub call_in
{
	my ($database) = @_;
	my (undef, undef, $error) = $small->psql($database, 'CALL zk_catch_up()');

	return $error;
}

# Returns what the code returns while a database of this name subscribes.
sub with_database
{
	my ($name, $code) = @_;

	$small->safe_psql('postgres', "CREATE DATABASE $name");
	$small->safe_psql($name, 'CREATE EXTENSION zklock; CREATE TABLE stock (id int PRIMARY KEY, n int)');
	$small->safe_psql($name, sprintf(
		q(CREATE SUBSCRIPTION %s CONNECTION '%s dbname=postgres' PUBLICATION few WITH (copy_data = false)),
		$name, $publisher->connstr));
	apply_worker($small, $name);
	my $result = $code->();
	$small->safe_psql($name, "DROP SUBSCRIPTION $name");
	$small->safe_psql('postgres', "DROP DATABASE $name");
	return $result;
}
for my $name (map { "database$_" } 1 .. 6)
{
	like(with_database($name, sub { call_in($name) }),
		qr/^psql.*ERROR:  no background worker is free to ask the sources$/m, "no worker is free in $name");
}
$small->safe_psql('postgres', 'ALTER SUBSCRIPTION few DISABLE');
is(with_database('last', sub {
	wait_until('one is free', sub { call_in('last') eq '' });
	call_in('last');
}), '', '... and then one is, in another database');
$small->safe_psql('postgres', 'ALTER SUBSCRIPTION few ENABLE');
$small->append_conf('postgresql.conf', q(shared_preload_libraries = ''));
$small->restart;
apply_worker($small, 'few');
like(ZkTest->new($small)->query('CALL zk_catch_up()'),
	qr/^ERROR:  55000: zklock cannot ask the sources$/m, 'not preloaded');
$small->stop;

# Libraries with a rule less claim what is not so. Each check returns what a call says in a
# state in which the real library says something else.
$reader->close;
$at_end->close;
my $caught_up = q(SELECT zk_caught_up('2s'));
my $wal_writer =
  $writer->query(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'));

# Nobody else flushes it.
sub after_asynchronous_commit
{
	my ($session) = @_;

	apply_worker($subscriber, 'orders');
	$session->query($caught_up);
	$writer->query('SET synchronous_commit = off');
	my $answer = suspended($wal_writer, sub {
		my $wrote = write_stock();
		my $answer = $session->query($caught_up);
		my $seen = $session->query('SELECT n FROM stock WHERE id = 1');

		return $seen eq $wrote ? $answer : "$answer, stale";
	});
	$writer->query('RESET synchronous_commit');
	return $answer;
}

sub while_invisible
{
	my ($session) = @_;

	my $answer = 'f';

	# The publisher may write something else behind the commit, such as a list of transactions.
	for (1 .. 3)
	{
		write_invisibly($session);
		$answer = $session->query($caught_up) if $answer eq 'f';
		change_setting($subscriber, 'synchronous_standby_names', '');
		$subscriber->safe_psql('postgres', q(ALTER SUBSCRIPTION orders SET (synchronous_commit = 'off')));
	}
	return $answer;
}

sub while_suspended
{
	my ($session) = @_;

	apply_worker($subscriber, 'orders');
	$session->query($caught_up);
	return suspended(apply_worker($subscriber, 'orders'), sub {
		write_stock();
		return $session->query($caught_up);
	});
}

sub while_disabled
{
	my ($session) = @_;

	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders DISABLE');
	my $answer = $session->query($caught_up);
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders ENABLE');
	return $answer;
}

sub while_unsynchronized
{
	my ($session) = @_;

	create_table('last', $subscriber, $publisher);
	$_->safe_psql('postgres', 'INSERT INTO last VALUES (1, 1)') for $subscriber, $publisher;
	$publisher->safe_psql('postgres', 'ALTER PUBLICATION orders ADD TABLE last');
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders REFRESH PUBLICATION');
	apply_worker($subscriber, 'orders');
	my $answer = $session->query($caught_up);
	$publisher->safe_psql('postgres', 'ALTER PUBLICATION orders DROP TABLE last');
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION orders REFRESH PUBLICATION');
	$_->safe_psql('postgres', 'DROP TABLE last') for $subscriber, $publisher;
	return $answer;
}

sub behind_suspended
{
	my ($session) = @_;

	return suspended(apply_worker($subscriber, 'orders'), sub {
		write_stock();
		return $session->query($caught_up);
	});
}

sub write_before
{
	my ($session) = @_;

	apply_worker($subscriber, 'orders');
	$session->query('BEGIN; UPDATE stock SET n = n WHERE id = 1');
	write_stock();
	my $answer = $session->query($caught_up);
	$session->query('ROLLBACK');
	return $answer;
}

my $another_position = sub {
	s/"pg_logical_emit_message\(\w+, 'zklock', 'question'::text(?:, true)?\)"/"$_[0]"/g;
};
my $refused = qr/^ERROR:  55000: subscription "orders" cannot catch up$/m;
my @mutants = (
	[ 'a position is the flush pointer', $subscriber, \&after_asynchronous_commit, qr/^t$/,
		'session/publishers.c' => sub { $another_position->('pg_current_wal_flush_lsn()') } ],
	[ 'a record is not flushed', $subscriber, \&after_asynchronous_commit, qr/^t$/,
		'session/publishers.c' => sub {
			$another_position->(q(pg_logical_emit_message(false, 'zklock', 'question'::text))) } ],
	[ 'a position is the end of a commit', $subscriber, \&while_invisible, qr/^f$/,
		'session/publishers.c' => sub { $another_position->('pg_current_wal_insert_lsn()') },
		'backend/subscriptions.c' => sub { s/\*received > of->position/*received >= of->position/ } ],
	[ 'an answer is one to an older question', $subscriber, \&while_suspended, qr/^f$/,
		'shared/subquestions.c' => sub { s/own->done < ticket/own->done < Max(ticket, 2) - 1/ } ],
	[ 'a disabled subscription is skipped', $subscriber, \&while_disabled, $refused,
		'backend/subscriptions.c' => sub {
			s/^\t\trefuse\(subscription, "It is disabled\."\);/\t{ ReleaseSysCache(tuple); return; }/m } ],
	[ 'the state of tables is not looked at', $subscriber, \&while_unsynchronized, $refused,
		'backend/subscriptions.c' => sub { s/^\tif \(OidIsValid\(table\)\)/\tif (false)/m } ],
	[ 'a worker that waits for the transaction is not looked for', $subscriber, \&write_before,
		qr/^ERROR:  40P01/m,
		'backend/subscriptions.c' => sub { s/^\t\tif \(zklock_deadlock_pgwaits_any\(\)\)/\t\tif (false)/m } ],
	[ 'a publisher does not catch up itself', $third, \&behind_suspended, qr/^f$/,
		'session/publishers.c' => sub { s/pg_is_in_recovery\(\) OR %s AND EXISTS/false AND %s AND EXISTS/ } ]);

# Returns what the check returns in a session of its own.
sub look
{
	my ($node, $check) = @_;
	my $session = ZkTest->new($node);
	my $result = $check->($session);

	$session->close;
	return $result;
}

for my $mutant (@mutants)
{
	my ($what, $node, $check, $right, %change) = @$mutant;

	changed_source($_, $change{$_}) for keys %change;
	like(look($node, $check), $right, "it is not so that $what");
}
for my $mutant (every(4, @mutants))
{
	my ($what, $node, $check, $right, %change) = @$mutant;

	build_zklock($node, [], %change);
	apply_worker($subscriber, 'orders');
	apply_worker($third, 'onwards');
	unlike(look($node, $check), $right, "a library in which it is: $what");
}

done_testing();
