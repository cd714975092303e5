# After the loss of a lock, nothing of the client begins that relies on it: neither what it
# has sent ahead, if its connection is to end, nor what it sends before it has been told.

use strict;
use warnings;
no warnings qw(redundant); # a format may leave the argument out

use PgBouncer;
use PgWire;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);

use constant TIMEOUT => 4;
my $node = new_node(
	'main', $proxy->hosts,
	listen_addresses => '127.0.0.1',
	max_connections => 200,
	max_prepared_transactions => 10,
	max_wal_senders => 2,
	wal_level => 'replica',
	shared_preload_libraries => 'zklock',
	'zklock.advisory_locks' => 'cluster',
	'zklock.session_timeout' => TIMEOUT . 's');
my $admin = ZkTest->new($node);
my $lost = qr/40001 lock on "\S+" was lost/;
my $ended = qr{^FATAL 40001 terminating connection because lock on "/\S+" was lost\nclosed$};

$node->safe_psql('postgres', q(
	CREATE EXTENSION zklock_advisory;
	CREATE TABLE t (what text);
	CREATE SEQUENCE s;
	CREATE SEQUENCE went_on;
	CREATE FUNCTION constant() RETURNS bigint IMMUTABLE LANGUAGE plpgsql
		AS $$ BEGIN RETURN nextval('s'); END $$;
	CREATE FUNCTION trusted(text) RETURNS void SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp LANGUAGE plpgsql
		AS $$ BEGIN INSERT INTO t VALUES ($1); END $$;
	CREATE PROCEDURE committing(text) LANGUAGE plpgsql
		AS $$ BEGIN COMMIT; INSERT INTO t VALUES ($1); COMMIT; END $$;
	CREATE PROCEDURE catching(text) LANGUAGE plpgsql AS $$
		BEGIN
			BEGIN
				PERFORM pg_sleep(1000);
			EXCEPTION WHEN query_canceled THEN
			END;
			INSERT INTO t VALUES ($1);
		END $$;
	CREATE PROCEDURE catching_all(text) LANGUAGE plpgsql AS $$
		BEGIN
			FOR i IN 1 .. 1000 LOOP
				BEGIN
					PERFORM pg_sleep(1000);
				EXCEPTION WHEN query_canceled OR OTHERS THEN
				END;
			END LOOP;
			INSERT INTO t VALUES ($1);
		END $$;
	CREATE PROCEDURE asking(text) LANGUAGE plpgsql AS $$
		BEGIN
			BEGIN
				PERFORM pg_sleep(1000);
			EXCEPTION WHEN query_canceled THEN
			END;
			FOR i IN 1 .. 1000 LOOP
				BEGIN
					PERFORM zk_lock_acquire('/asked', '0');
				EXCEPTION WHEN OTHERS THEN
				END;
			END LOOP;
			INSERT INTO t VALUES ($1);
		END $$;
	CREATE PROCEDURE rolling_back(text) LANGUAGE plpgsql AS $$
		DECLARE
			caught int := 0;
		BEGIN
			WHILE caught < 2 LOOP
				BEGIN
					PERFORM pg_sleep(1000);
				EXCEPTION WHEN query_canceled THEN
					caught := caught + 1;
				END;
				ROLLBACK;
			END LOOP;
			PERFORM nextval('went_on');
			INSERT INTO t VALUES ($1);
			COMMIT;
		END $$));

# What clients of this name have written
sub written
{
	my ($what) = @_;

	return $admin->query("SELECT count(*) FROM t WHERE what = '$what'");
}

# Lets ZooKeeper end the sessions of all holders without an answer to them, and returns when
# it has, and when they must know that: a statement is cancelled, and the client of an idle
# one, if it relies on the lock, is disconnected earlier.
sub lose
{
	my ($canary) = @_;

	$proxy->refuse;
	$proxy->cut;
	wait_until('the loss is known', sub { $canary->is_readable });
	wait_until('all sessions are over', sub { my @left = $zk->sessions; !@left });
	$canary->close;
	return;
}

sub canary
{
	my $client = PgWire->new($node);

	is($client->query(q(SELECT zk_lock_acquire('/canary'))), "t\nSELECT 1", 'a canary has a lock');
	$client->send(PgWire::simple('SELECT pg_sleep(1000)'));
	return $client;
}

sub restore
{
	$proxy->accept;
	wait_until('locks can be taken again',
		sub { $admin->query(q(SELECT zk_lock_acquire('/probe', '5s'), zk_lock_release('/probe'))) eq 't|t' });
	return;
}

#
# What was sent ahead
#

my $insert = q(INSERT INTO t VALUES ('%s'));
my $oid = $admin->query(q(SELECT 'pg_catalog.lo_creat'::regproc::oid));

# Messages that a client of a name has sent behind the statement that the loss cancels
my %ahead = (
	'a statement' => sub { PgWire::simple(sprintf($insert, @_)) },
	'a statement, in the extended protocol' => sub { PgWire::extended(sprintf($insert, @_)) },
	'statements in one message' => sub { PgWire::simple(sprintf("SELECT 1; $insert; $insert", @_, @_)) },
	'many statements' => sub { (PgWire::extended(sprintf($insert, @_))) x 300 },
	'a transaction' => sub { map { PgWire::simple(sprintf($_, @_)) } 'BEGIN', $insert, 'COMMIT' },
	'ROLLBACK and a statement' => sub { map { PgWire::simple(sprintf($_, @_)) } 'ROLLBACK', $insert },
	'COMMIT and a statement' => sub { map { PgWire::simple(sprintf($_, @_)) } 'COMMIT', $insert },
	'DO' => sub { PgWire::simple(sprintf("DO \$\$ BEGIN $insert; END \$\$", @_)) },
	'CALL' => sub { PgWire::simple("CALL committing('@_')") },
	'a function' => sub { PgWire::extended("SELECT trusted('@_')") },
	'COPY' => sub { PgWire::simple('COPY t FROM STDIN'), PgWire::copied("@_\n") },
	'a prepared transaction' => sub {
		map { PgWire::simple(sprintf($_, @_)) } 'BEGIN', $insert, "PREPARE TRANSACTION '@_'", "COMMIT PREPARED '@_'";
	},
	'CREATE DATABASE' => sub { PgWire::simple('CREATE DATABASE ahead') },
	'CREATE TABLE' => sub { PgWire::simple('CREATE TABLE ahead AS SELECT 1') },
	'a fast-path call' => sub { PgWire::call($oid, 0x60000) },
	'a plan' => sub { PgWire::parsed('SELECT constant()'), PgWire::sync() });

# Each way to have a lock whose loss disconnects, and the statements that the loss cancels
my %ways = (
	'an advisory lock' => ['SELECT pg_advisory_lock(%d)'],
	'a lock, and disconnect' => [ q(SET zklock.on_loss = 'disconnect'), q(SELECT zk_lock_acquire('/ahead/%d')) ],
	'a lock of a transaction, and disconnect' =>
	  [ q(SET zklock.on_loss = 'disconnect'), q(BEGIN; SELECT zk_lock_guard('/ahead/%d')) ],
	'a lock, and no check' => [ q(SET zklock.on_loss = 'disconnect'; SET zklock.confirm_commit = off),
		q(SELECT zk_lock_acquire('/ahead/%d')) ]);
my (@clients, $canary);
my $n = 0;

sub begin
{
	my ($what, $way, $options, @sent) = @_;
	my $client = PgWire->new($node, %$options);
	my $name = "ahead " . ++$n;

	unlike($client->query(sprintf($_, $n)), qr/ERROR/, "$what, $way: holds its lock") for @{ $ways{$way} };
	$client->send(PgWire::simple('SELECT pg_sleep(1000)'), map { $_->($name) } @sent);
	push @clients, { client => $client, what => "$what, $way", name => $name };
	return;
}

for my $what (sort keys %ahead)
{
	# The first statement after a lost transaction is its end.
	for my $way (sort keys %ways)
	{
		next if ($way =~ /of a transaction/) != ($what =~ /^(ROLLBACK|COMMIT)/);
		begin($what, $way, { $way =~ /advisory/ && $what =~ /^a/ ? (tcp => 1) : () }, $ahead{$what});
	}
}

# With a session of the server, it cannot take the lock.
begin('a walsender', 'a lock, and disconnect', { replication => 'database' }, $ahead{'a statement'})
  if !server_mode();
wait_until('all statements run',
	sub { $admin->query(q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')) eq @clients });
$canary = canary();
lose($canary);
for my $case (@clients)
{
	my ($cancelled, @rest) = $case->{client}->answers(100000);

	like($cancelled, qr/^ERROR $lost$/, "$case->{what}: the statement that ran is cancelled");
	shift @rest if @rest && $case->{what} =~ /^(ROLLBACK|COMMIT) / && $rest[0] eq 'ROLLBACK';
	is(scalar @rest, 1, '... there is one more answer');
	like($rest[0], $ended, '... with the reason');
	is(written($case->{name}), '0', '... and nothing was executed');
	$case->{client}->close;
}
is($admin->query(q(SELECT count(*) FROM pg_largeobject_metadata)), '0', 'no fast-path call is committed');
is($admin->query(q(SELECT is_called FROM s)), 'f', 'nothing is planned');
is($admin->query(q(SELECT count(*) FROM pg_database WHERE datname = 'ahead')), '0', 'no database is created');
is($admin->query(q(SELECT count(*) FROM pg_prepared_xacts)), '0', 'no transaction is prepared');
@clients = ();
restore();

# A COMMIT behind a statement that has caught its cancellation, and no check. A backend whose
# client is disconnected removes its temporary tables.
{
	my ($client, $idle) = map { PgWire->new($node) } 1 .. 2;

	for ($client, $idle)
	{
		$_->query(q(SET zklock.on_loss = 'disconnect'; SET zklock.confirm_commit = off));
		is($_->query(sprintf(q(SELECT zk_lock_acquire('/ahead/%d')), ++$n)), "t\nSELECT 1", 'a client has a lock');
		is($_->query('CREATE TEMPORARY TABLE mine ()'), 'CREATE TABLE', '... and a temporary table');
	}
	$idle->query('RESET zklock.confirm_commit');
	$client->query('BEGIN; ' . sprintf($insert, 'caught'));
	$client->send(PgWire::simple(
			'DO $$ BEGIN BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN END; END $$'),
		PgWire::simple('COMMIT'));
	wait_until('its statement runs',
		sub { $admin->query(q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')) eq '1' });
	lose(canary());
	my @answers = $client->answers(3);
	is($answers[0], 'DO', 'a statement catches its cancellation');
	like($answers[1], $ended, '... and the commit that was sent ahead ends the connection');
	is(scalar @answers, 2, '... and is the last');
	is(written('caught'), '0', '... without an effect');
	is(($idle->answers(1))[0], 'closed', 'an idle client is told nothing');
	wait_until('the backends have ended',
		sub { $admin->query(join(',', 'SELECT count(*) FROM pg_stat_activity WHERE pid IN (' . $client->pid, $idle->pid . ')')) eq '0' });
	is($admin->query(q(SELECT count(*) FROM pg_class WHERE relname = 'mine')), '0', 'temporary tables are removed');
	$_->close for $client, $idle;
	restore();
}

# With 'cancel', the connection goes on, and what was sent ahead is executed.
{
	my $client = PgWire->new($node);

	is($client->query(q(SELECT zk_lock_acquire('/ahead/cancel'))), "t\nSELECT 1", 'a client has a lock');
	$client->send(PgWire::extended('SELECT pg_sleep(1000)'), PgWire::extended(sprintf($insert, 'cancel')));
	wait_until('its statement runs',
		sub { $admin->query(q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')) eq '1' });
	lose(canary());
	my @answers = $client->answers(2);
	like($answers[0], qr/^ERROR $lost$/, q('cancel': the statement that ran is cancelled));
	is($answers[1], 'INSERT 0 1', '... and the next one is executed');
	$client->close;
	restore();
}

#
# What is sent after a loss while the session was idle
#

# The first statement after the loss. In a block, everything fails until its end.
my %first = (
	'a query' => 'SELECT 1',
	'a query that waits' => 'SELECT pg_sleep(1000)',
	'a change' => sprintf($insert, 'first'),
	'a setting' => 'SET work_mem = 1000',
	'SHOW' => 'SHOW work_mem',
	'EXPLAIN' => 'EXPLAIN SELECT 1',
	'EXECUTE' => 'EXECUTE prepared',
	'FETCH' => 'FETCH cursor',
	'COPY' => 'COPY t TO STDOUT',
	'DO' => sprintf("DO \$\$ BEGIN $insert; END \$\$", 'first'),
	'DO that catches' => sprintf(
		"DO \$\$ BEGIN BEGIN $insert; EXCEPTION WHEN OTHERS OR query_canceled THEN END; $insert; END \$\$", 'first', 'first'),
	'CALL' => q(CALL committing('first')),
	'a function' => q(SELECT trusted('first')),
	'a release' => q(SELECT zk_lock_release('/first/%d')),
	'a release of all' => 'SELECT zk_lock_release_all()',
	'a try' => q(SELECT zk_lock_acquire('/first/%d', '0')),
	'a look' => q(SELECT zk_lock_held('/first/%d')),
	'RESET ALL' => 'RESET ALL',
	'CREATE DATABASE' => 'CREATE DATABASE first');
my $prepare = sprintf("PREPARE prepared AS $insert", 'first');

# Has taken a lock, with these settings, before or in a transaction
sub take
{
	my ($what, $extended, @sql) = @_;
	my $client = PgWire->new($node);

	$n++;
	unlike($client->query(sprintf($_, $n)), qr/ERROR|f\n/, "$what: holds its lock")
	  for $prepare, 'BEGIN; DECLARE cursor CURSOR WITH HOLD FOR SELECT 1; COMMIT', @sql;
	push @clients, {
		client => $client,
		what => $what . ($extended ? ', in the extended protocol' : ''),
		number => $n,
		first => sub {
			$client->send($extended ? PgWire::extended(@_) : PgWire::simple(@_));
			return ($client->answers(1))[0];
		} };
	return;
}

my $take = q(SELECT zk_lock_acquire('/first/%d'));
my $guard = q(BEGIN; SELECT zk_lock_guard('/first/%d'));

sub take_all
{
	@clients = ();
	for my $what (sort keys %first)
	{
		for my $extended (0, 1)
		{
			my $off = $extended ? 'SET zklock.confirm_commit = off' : 'SELECT 1';

			take($what, $extended, $off, $take);
			$clients[-1]{sql} = $first{$what};
			next if $what =~ /DATABASE/;
			take("$what, in a block", $extended, $off,
				$extended ? "$guard; SAVEPOINT s" : "$take; BEGIN; SAVEPOINT s");
			$clients[-1]{sql} = $first{$what};
			$clients[-1]{block} = 1;
		}
	}
	return;
}

sub check_all
{
	my ($how) = @_;
	my $began = time();

	for my $case (@clients)
	{
		my ($client, $what) = ($case->{client}, "$how, $case->{what}");
		my $sql = $case->{sql} =~ s/%d/$case->{number}/r;

		like($case->{first}->($sql), qr/^ERROR $lost$/, "$what: fails");
		if ($case->{block})
		{
			like($client->query($sql), qr/^ERROR 25P02/, '... the block has failed');
			is($client->query('ROLLBACK TO s'), 'ROLLBACK', '... its savepoint is restored');
			like($case->{first}->($sql), qr/^ERROR $lost$/, '... it fails again');
			is($client->query('ROLLBACK'), 'ROLLBACK', '... and is rolled back');
		}
		is($client->query("SELECT zk_lock_held('/first/$case->{number}')"), "f\nSELECT 1",
			'... then the session is free');
		$client->close;
	}
	cmp_ok(time() - $began, '<', 10, "$how: nothing has waited");
	is(written('first'), '0', "$how: nothing was executed");
	is($admin->query(q(SELECT count(*) FROM pg_database WHERE datname = 'first')), '0',
		"$how: no database is created");
	return;
}

# ZooKeeper cannot be reached.
take_all();
lose(canary());
check_all('outage');

# ZooKeeper has ended the session, and says so.
restore();
take_all();
lose(canary());
restore();
check_all('expiry');

# The worker is stopped.
if (server_mode())
{
	take_all();
	my $canary = canary();
	my $worker = worker_of($node);

	kill('STOP', $worker);
	wait_until('the loss is known', sub { $canary->is_readable });
	check_all('stopped worker');
	kill('CONT', $worker);
	$canary->close;
	restore();
}

# The next client of a pool gets a session that is in order.
$ENV{PATH} .= ':/usr/sbin';
if (grep { -x "$_/pgbouncer" } split(/:/, $ENV{PATH}))
{
	my $pool = PgBouncer->new($node, pool_mode => 'session', default_pool_size => 1);
	my $client = ZkTest->new($pool);

	is($client->query(q(SET work_mem = '1MB'; SELECT zk_lock_acquire('/pooled'))), 't', 'a client of a pool has a lock');
	lose(canary());
	$client->close;
	my $next = ZkTest->new($pool);

	is($next->pid, $client->pid, '... the next one gets its session after the loss');
	is($next->query(q(SHOW work_mem; SELECT zk_lock_held('/pooled'))), "4MB\nf", '... which DISCARD ALL has reset');
	$next->close;
	$pool->stop;
	restore();
}

# DISCARD ALL in a message with another statement is in a block.
{
	my $client = PgWire->new($node);

	is($client->query(q(SELECT zk_lock_acquire('/discarded'))), "t\nSELECT 1", 'a client has a lock');
	lose(canary());
	like($client->query(sprintf("DISCARD ALL; $insert", 'discards')), qr/^ERROR $lost$/,
		'DISCARD ALL and another statement fail after the loss');
	is(written('discards'), '0', '... and nothing is executed');
	$client->close;
	restore();
}

# What begins or ends a block does not fail by itself, except a commit.
{
	my ($begins, $commits, $undoes) = map { PgWire->new($node) } 1 .. 3;
	my %path = ($begins => '/ends/1', $commits => '/ends/2', $undoes => '/ends/3');

	is($_->query("SELECT zk_lock_acquire('$path{$_}')"), "t\nSELECT 1", 'a client has a lock')
	  for $begins, $commits, $undoes;
	$commits->query('BEGIN; ' . sprintf($insert, 'commits'));
	$undoes->query('BEGIN; ' . sprintf($insert, 'undoes'));
	lose(canary());
	is($begins->query('BEGIN'), 'BEGIN', 'BEGIN succeeds after a loss');
	like($begins->query('SELECT 1'), qr/^ERROR $lost/, '... what follows fails');
	is($begins->query('COMMIT'), 'ROLLBACK', '... and is rolled back');
	is($begins->query('SELECT 1'), "1\nSELECT 1", '... then the session is free');
	my $began = time();
	like($commits->query('COMMIT'), qr/^ERROR $lost/, 'COMMIT fails after a loss');
	cmp_ok(time() - $began, '<', 5, '... without a wait for ZooKeeper');
	is($commits->query('SELECT 1'), "1\nSELECT 1", '... then the session is free');
	is($undoes->query('ROLLBACK'), 'ROLLBACK', 'ROLLBACK succeeds after a loss');
	like($undoes->query('SELECT 1'), qr/^ERROR $lost/, '... and the client is told of the loss');
	is($undoes->query('SELECT 1'), "1\nSELECT 1", '... then the session is free');
	is(written($_), '0', "nothing that $_ is committed") for qw(commits undoes);
	$_->close for $begins, $commits, $undoes;
	restore();
}

# A rollback to a savepoint releases the lost lock: the transaction can continue.
{
	my $client = PgWire->new($node);

	$client->query('BEGIN; ' . sprintf($insert, 'before the savepoint'));
	unlike($client->query(q(SAVEPOINT s; SELECT zk_lock_guard('/savepoint'))), qr/ERROR/, 'a client has a lock');
	lose(canary());
	like($client->query('SELECT 1'), qr/^ERROR $lost$/, '... and a statement fails after the loss');
	is($client->query('ROLLBACK TO s'), 'ROLLBACK', '... which a savepoint undoes');
	is($client->query('SELECT 1'), "1\nSELECT 1", '... and the transaction goes on');
	is($client->query('COMMIT'), 'COMMIT', '... to its end');
	is(written('before the savepoint'), '1', '... and has an effect');
	$client->close;
	restore();
}

# A connection that comes back in time is no loss.
{
	my $client = PgWire->new($node);

	is($client->query(q(SELECT zk_lock_acquire('/back'))), "t\nSELECT 1", 'a client has a lock');
	$client->query('BEGIN');
	$proxy->refuse;
	$proxy->cut;
	is($client->query('SELECT 1'), "1\nSELECT 1", 'a statement without a connection succeeds');
	$proxy->accept;
	is($client->query('SELECT 1'), "1\nSELECT 1", '... another one, too');
	is($client->query('COMMIT'), 'COMMIT', '... and the commit');
	$client->close;
}

# A result that is fetched in parts
{
	my $client = PgWire->new($node);

	is($client->query(q(SELECT zk_lock_acquire('/parts'))), "t\nSELECT 1", 'a client has a lock');
	$client->query('BEGIN');
	$client->send(PgWire::parsed('SELECT generate_series(1, 2)'), PgWire::executed(1), PgWire::sync());
	is(($client->answers(1))[0], '1', '... and a part of a result');
	lose(canary());
	$client->send(PgWire::executed(1), PgWire::sync());
	like(($client->answers(1))[0], qr/^ERROR $lost$/, '... and no further part after the loss');
	$client->close;
	restore();
}

# A procedure that catches its cancellation
{
	my @procedures = qw(asking catching catching_all rolling_back);

	for my $procedure (@procedures)
	{
		take($procedure, 0, 'SET zklock.confirm_commit = off', $take);
		$clients[-1]{client}->send(PgWire::simple("CALL $procedure('$procedure')"));
	}
	@clients = splice(@clients, -@procedures);
	take('rolling_back, and disconnect', 0, q(SET zklock.on_loss = 'disconnect'), $take);
	my $ends = pop @clients;
	$ends->{client}->send(PgWire::simple(q(CALL rolling_back('ends'))));
	wait_until('all procedures sleep',
		sub { $admin->query(q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')) eq @procedures + 1 });
	lose(canary());
	like(($ends->{client}->answers(1))[0], $ended, 'a procedure ends with its connection');
	is(written('ends'), '0', '... and has written nothing');
	for my $case (@clients)
	{
		my $rolls_back = $case->{what} eq 'rolling_back';
		my ($answer) = $case->{client}->answers(1);

		like($answer, $rolls_back ? qr/^CALL$/ : qr/^ERROR $lost$/,
			"procedure $case->{what} ends " . ($rolls_back ? 'without its lock' : 'with the reason'));
		is(written($case->{what}), $rolls_back, '... and has written what it may')
		  if $rolls_back;
		is(written($case->{what}), '0', '... and has written nothing') if !$rolls_back;
		is($case->{client}->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'), "0\nSELECT 1",
			'... and the session is free');
		$case->{client}->close;
	}
	is($admin->query('SELECT last_value FROM went_on'), '1', 'nothing goes on in a connection that ends');
	$ends->{client}->close;
	restore();
}

done_testing();
