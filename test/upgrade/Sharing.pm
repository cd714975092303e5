# Two servers, of which one has another release of zklock, share locks.
#
#	Sharing->new($zk, $session_mode, $version, $released, $present)->play;
#
# The server $released has this version, and the other one zklock.leaders = Sharing->LED.

package Sharing;

use strict;
use warnings;

use Session;
use Stage qw(check is like);
use Wait;

use constant {
	BACKENDS => 5,    # of each server that count at the same time
	TIMES => 30,      # that each of them counts
	WAITS => '/zklock/waits',
	LED => '/upgrade/led',
};

my $n = 0;

sub new
{
	my ($class, $zk, $mode, $version, $released, $present) = @_;

	return bless {
		zk => $zk,
		mode => $mode,
		servers => [ $released, $present ],
		name => { $released => $version, $present => 'this tree' }
	}, $class;
}

# Checks what the servers do with locks that the other one has. Each of them begins.
sub play
{
	my ($self) = @_;
	my @servers = @{ $self->{servers} };
	my $where = $Stage::where;

	$servers[0]->psql('-c', q(SELECT zk_shared_count_set('/limits/one', 1)));
	$self->_make_counter;
	$self->_count(TIMES, 'NULL', 'with a lock');
	$self->_count(TIMES, q('0'), 'with tries');
	$self->_lead(@servers);
	for my $order ([@servers], [ reverse @servers ])
	{
		my @sessions = map { Session->new($_) } @$order, @$order;

		$Stage::where = "$where$self->{name}{$order->[0]} first: ";
		$self->_share_locks(@sessions);
		$self->_try_locks(@sessions);
		$self->_show_and_revoke(@sessions);
		$self->_find_deadlocks(@sessions);
		$self->_share_advisory_locks($_, @$order) for qw(cluster both);
		$self->_keep_locks(@sessions) if $self->{mode} eq 'server';
		$_->close for @sessions;
	}
	return;
}

sub _path
{
	return '/upgrade/' . ++$n;
}

# Returns a statement that takes a lock, or a lease, or two locks.
sub _acquire
{
	my ($path, $kind, $timeout) = @_;
	my $more = "scope => 'transaction', timeout => '" . ($timeout // '1min') . "'";

	return "SELECT zk_semaphore_acquire('$path', 1, $more)" if $kind eq 'semaphore';
	return "SELECT zk_semaphore_acquire_counted('$path', '/limits/one', $more)" if $kind eq 'counted';
	return "SELECT zk_lock_acquire_all('{$path/$1,$path/$2}', $more)" if $kind =~ /^locks (.) and (.)$/;
	return "SELECT zk_lock_acquire('$path', mode => '$kind', $more)";
}

# Starts a statement, and waits until it waits for a lock.
sub _block
{
	my ($session, $statement) = @_;

	$session->start($statement);
	wait_until('it waits', sub {
		Session::ask($session->{node}, "SELECT count(*) FROM zk_locks WHERE pid = ${\ $session->pid} AND NOT granted");
	});
	return;
}

# Waits for the sessions' statements, and ends their transactions. Returns the numbers of the
# sessions in the order in which they got their lock, or their errors.
sub _turns
{
	my @sessions = @_;
	my @left = 0 .. $#sessions;
	my @turns;

	while (@left)
	{
		my ($i) = @{ wait_until('a statement ends', sub { my @done = grep { $sessions[$_]->is_done } @left; @done && \@done }) };
		my $result = $sessions[$i]->result;

		push(@turns, $result eq 't' ? $i : $result);
		$sessions[$i]->query('ROLLBACK');
		@left = grep { $_ != $i } @left;
	}
	return @turns;
}

sub _share_locks
{
	my ($self, $a, $b, $a2, $b2) = @_;
	my $path;

	for my $kinds (
		[qw(exclusive exclusive)], [qw(shared write)], [qw(write shared)], [qw(simple simple)],
		[qw(semaphore semaphore)], [qw(counted counted)], [ 'locks 1 and 2', 'locks 2 and 3' ])
	{
		my ($kind, $other) = @$kinds;

		$path = _path();
		$_->query('BEGIN') for $a, $b;
		my $held = $a->query(_acquire($path, $kind));
		my $tried = $b->query(_acquire($path, $other, '0'));
		_block($b, _acquire($path, $other));
		$a->query('ROLLBACK');
		is(join(' ', $held, $tried, $b->result), 't f t', "$kind excludes $other, and lets it go on");
		$b->query('ROLLBACK');
	}

	$path = _path();
	$_->query('BEGIN') for $a, $b, $a2, $b2;
	$a->query(_acquire($path, 'exclusive'));
	for my $session ($b, $a2, $b2)
	{
		$session->start(_acquire($path, 'exclusive'));
		$session->wait_for_lock;
	}
	$a->query('ROLLBACK');
	like(join(' ', _turns($b, $a2, $b2)), $self->{mode} eq 'server' ? qr/^(?:0 1 2|1 0 2|0 2 1)$/ : qr/^0 1 2$/,
		'waiters get a lock in their order');

	$path = _path();
	$_->query('BEGIN') for $a, $b, $a2, $b2;
	is(join(' ', map { $_->query(_acquire($path, 'shared', '0')) } $a, $b, $a2), 't t t', 'readers share a lock');
	_block($b2, _acquire($path, 'write'));
	$_->query('ROLLBACK') for $a, $a2;
	check(!$b2->is_done, '... a writer waits for the last one');
	$b->query('ROLLBACK');
	is($b2->result, 't', '... and gets the lock');
	$b2->query('ROLLBACK');
	return;
}

sub _try_locks
{
	my ($self, $a, $b) = @_;
	my $path = _path();

	$a->query('BEGIN; ' . _acquire($path, 'exclusive'));
	is(join('', map { $b->query(_acquire($path, 'exclusive', '0')) } 1 .. 10), 'f' x 10, 'tries are refused');
	wait_until('only the holder has a node', sub { $self->{zk}->children($path) == 1 });
	$a->query('ROLLBACK');
	wait_until('the lock is free', sub { $self->{zk}->children($path) == 0 });
	is($b->query(_acquire($path, 'exclusive', '0')), 't', '... and the next one is granted');
	return;
}

sub _show_and_revoke
{
	my ($self, $a, $b) = @_;
	my $path = _path();
	my ($holder, $waiter) = map { $_->{node}->port . '|' . ($self->{mode} eq 'backend' ? $_->pid : '') } $a, $b;

	$a->query('BEGIN; SET LOCAL zklock.revocable = on; ' . _acquire($path, 'exclusive'));
	_block($b, _acquire($path, 'exclusive'));
	is(Session::ask($a->{node}, "SELECT port, pid FROM zk_lock_queue('$path') WHERE state = 'waiter'"),
		$waiter, 'the holder sees the waiter');
	is(Session::ask($b->{node}, "SELECT port, pid FROM zk_lock_queue('$path') WHERE state = 'holder'"),
		$holder, '... and the waiter the holder');
	is(Session::ask($b->{node}, "SELECT blocking_port, blocking_pid FROM zk_lock_blockers WHERE path = '$path'"),
		$holder, '... which blocks it');
	$a->start('SELECT pg_sleep(600)');
	is(Session::ask($b->{node}, "SELECT zk_lock_revoke('$path')"), '1', 'the lock is revoked');
	like($a->result, qr/^ERROR:  57014: .* was revoked/, '... which cancels the holder');
	$a->query('ROLLBACK');
	is($b->result, 't', '... and the waiter gets the lock');
	return;
}

# The second one to wait is the victim.
sub _find_deadlocks
{
	my ($self, $a, $b, $a2) = @_;
	my $path = _path();
	my $n_records = sub { my @records = $self->{zk}->children(WAITS); return scalar @records };
	my $member = 'rocess ' . $a->pid . ' of \S+:' . $a->{node}->port;

	$_->query('BEGIN') for $a, $b;
	$a->query(_acquire("$path/1", 'exclusive'));
	$b->query(_acquire("$path/2", 'write'));
	_block($a, _acquire("$path/2", 'exclusive'));
	wait_until('there is a record', $n_records);
	like($b->query(_acquire("$path/1", 'exclusive')), qr/^ERROR:  40P01: .*$member\b/s, 'a deadlock is found');
	$b->query('ROLLBACK');
	is($a->result, 't', '... and the other one gets the lock');
	$a->query('ROLLBACK');
	wait_until('no record is left', sub { !$n_records->() });

	my @cycle = ($a, $b, $a2);

	$path = _path();
	$_->query('BEGIN') for @cycle;
	$cycle[$_]->query(_acquire("$path/$_", 'exclusive')) for 0 .. 2;
	$cycle[$_]->start(_acquire("$path/" . ($_ + 1) % 3, 'exclusive')) for 0 .. 2;
	is(join(' ', sort map { /40P01/ ? 'victim' : /^\d$/ ? 'goes on' : $_ } _turns(@cycle)), 'goes on goes on victim',
		'... and one of three');
	wait_until('no record is left', sub { !$n_records->() });
	return;
}

# Advisory locks, where this tree takes them with $setting
sub _share_advisory_locks
{
	my ($self, $setting, @pair) = @_;
	my ($a, $b) = map {
		Session->new($_, 'zklock.advisory_locks' => $self->{name}{$_} ne 'this tree' ? 'cluster' : $setting)
	} @pair;
	my @results;

	for my $key ('1', '-1', '9223372036854775807', '1, 2', q('-2147483648', '-2147483648'))
	{
		$a->query("SELECT pg_advisory_lock($key)");
		my $tried = $b->query("SELECT pg_try_advisory_lock($key)");
		_block($b, "SELECT pg_advisory_lock($key)");
		push(@results, $tried, $a->query("SELECT pg_advisory_unlock($key)"), $b->result,
			$b->query("SELECT pg_advisory_unlock($key)"));
	}
	is(join('', @results), 'ftt' x 5, "advisory locks exclude each other ('$setting' in this tree)");
	$a->query('BEGIN; SELECT pg_advisory_xact_lock_shared(7)');
	is($b->query('SELECT pg_try_advisory_lock_shared(7), pg_advisory_unlock_shared(7), pg_try_advisory_lock(7)'),
		't|t|f', '... and those of readers do not');
	$a->query('COMMIT');
	wait_until('the lock is free', sub { $b->query('SELECT pg_try_advisory_xact_lock(7)') eq 't' });
	$_->close for $a, $b;
	return;
}

# A counter in a table on the first server, which backends of both read and write under a lock.
# "disorder" counts grants that are not newer than those before, and "changes" those that another
# server had before.
sub _make_counter
{
	my ($self) = @_;
	my ($here, $other) = @{ $self->{servers} };
	my $host = $here->host;
	my $port = $here->port;

	$here->psql('-c', 'CREATE TABLE counter (n int, token bigint, number bigint, disorder int, server int, changes int);
		INSERT INTO counter DEFAULT VALUES');
	$other->psql('-c', "CREATE EXTENSION postgres_fdw;
		CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER other;
		IMPORT FOREIGN SCHEMA public LIMIT TO (counter) FROM SERVER other INTO public");
	$_->psql('-c', q(
		CREATE FUNCTION take(path text, patience interval) RETURNS boolean LANGUAGE plpgsql AS $$
			BEGIN
				RETURN zk_lock_acquire(path, patience);
			EXCEPTION WHEN connection_exception THEN    -- a try, on a busy machine
				RETURN false;
			END $$;
		CREATE PROCEDURE work(path text, times int, patience interval) LANGUAGE plpgsql AS $$
			DECLARE
				c counter;
				my_token bigint;
				my_number bigint;
				my_server int := current_setting('port');
			BEGIN
				FOR i IN 1 .. times LOOP
					WHILE NOT take(path, patience) LOOP
						PERFORM pg_sleep(random() / 100);
					END LOOP;
					COMMIT;
					SELECT * INTO c FROM counter;
					my_token := zk_lock_token(path);
					my_number := zk_lock_grant_number(path);
					PERFORM pg_sleep(0.002);
					UPDATE counter SET n = c.n + 1, token = my_token, number = my_number, server = my_server,
						disorder = c.disorder + ((my_token, my_number) <= (c.token, c.number))::int,
						changes = c.changes + (my_server <> c.server)::int;
					COMMIT;
					PERFORM zk_lock_release(path);
				END LOOP;
			END $$)) for $here, $other;
	return;
}

sub _count
{
	my ($self, $times, $patience, $what) = @_;
	my ($here, $other) = @{ $self->{servers} };
	my $path = _path();
	my @sessions = map { Session->new($_) } ($here, $other) x BACKENDS;

	$here->psql('-c', 'UPDATE counter SET n = 0, token = 0, number = 0, disorder = 0, server = 0, changes = 0');
	$_->start("CALL work('$path', $times, $patience)") for @sessions;
	is(join('', map { $_->result } @sessions), '', "backends of both count $what");
	is($here->psql('-c', 'SELECT n, disorder FROM counter'), $times * @sessions . '|0', '... none is lost, and each grant is newer');
	my $changes = $here->psql('-c', 'SELECT changes FROM counter');
	check($changes > 2, "... in turns: $changes") if $patience eq 'NULL';
	$_->close for @sessions;
	return;
}

# To the release, a term of a server is an exclusive lock.
sub _lead
{
	my ($self, $old, $new) = @_;
	my $session = Session->new($old);
	my $queue = "SELECT port, mode, state FROM zk_lock_queue('${\ LED}')";
	my $leads = "SELECT zk_leads('${\ LED}')";

	wait_until('the server leads', sub { Session::ask($new, $leads) eq 't' });
	is($session->query($queue), $new->port . '|exclusive|holder', 'the holder is a server that leads');
	$session->query('BEGIN');
	is($session->query(_acquire(LED, 'exclusive', '0')), 'f', '... which excludes others');
	_block($session, _acquire(LED, 'exclusive'));
	Session::ask($new, "SELECT zk_leader_resign('${\ LED}')");
	is($session->result, 't', '... until it resigns');
	is(Session::ask($new, $leads), 'f', '... and then does not lead');
	$session->query('ROLLBACK');
	wait_until('the server leads', sub { Session::ask($new, $leads) eq 't' });
	$session->close;
	return;
}

sub _keep
{
	my ($time, $server) = @_;

	Session::ask($server, "ALTER SYSTEM SET zklock.keep_time = '$time'");
	Session::ask($server, 'SELECT pg_reload_conf()');
	wait_until('the setting is read', sub { Session::ask($server, 'SHOW zklock.keep_time') eq $time });
	return;
}

# Takes a lock until its server keeps it.
sub _warm
{
	my ($session, $path) = @_;

	wait_until('the lock is kept', sub {
		$session->query(_acquire($path, 'exclusive'));
		$session->query("SELECT kept FROM zk_lock_queue('$path')") eq 't';
	});
	return;
}

# The first one's server keeps locks; then the other one's does, too.
sub _keep_locks
{
	my ($self, $a, $b) = @_;

	for my $keeper ($a, $b)
	{
		my ($path, $tried) = (_path(), _path());

		_keep('1min', $keeper->{node});
		_warm($a, $_) for $path, $tried;
		is($b->query(_acquire($path, 'exclusive')), 't', 'a kept lock is given back');
		wait_until('a try is granted', sub { $b->query(_acquire($tried, 'exclusive', '0')) eq 't' });
		check(1, '... also for a try');
	}
	$self->_count(TIMES, 'NULL', 'with a kept lock');
	_keep('0', $_->{node}) for $a, $b;
	return;
}

1;
