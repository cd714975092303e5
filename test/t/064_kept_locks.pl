# zklock.keep_time: a lock that no other client wants stays with the server, costs it
# nothing, and goes to another client when that wants it.
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
my %keep = (
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '60s',
	'zklock.keep_time' => '1min',
	restart_after_crash => 'on');
my $node = new_node('main', $proxy->hosts, %keep);
my $session = ZkTest->new($node)->connect;

# Takes and releases a lock.  Returns the token.
sub use_lock
{
	my ($session, $path) = @_;
	my $answer = $session->query(
		"SELECT zk_lock_acquire('$path'); SELECT zk_lock_token('$path'); SELECT zk_lock_release('$path')");

	like($answer, qr/^t\n\d+\nt$/, "$path is locked and released");
	return (split /\n/, $answer)[1];
}

# Uses a lock until it is kept.
sub warm
{
	my ($session, @paths) = @_;

	for my $path (@paths)
	{
		use_lock($session, $path) for 1 .. 4;
		is(scalar $zk->children($path), 1, "$path is kept");
	}
	return;
}

sub wait_until_gone
{
	my (@paths) = @_;

	for my $path (@paths)
	{
		wait_until("$path is not kept any more", sub { !$zk->children($path) });
	}
	return;
}

# A lock is kept from the third node on. Each use after that is free.
$zk->make_path('/kept');
$proxy->wait_idle;
$proxy->mark;
use_lock($session, '/kept/cost') for 1 .. 3;
$proxy->wait_idle;
is_deeply(
	[ grep { $_ ne 'createContainer' } map { $_->{op} } $proxy->requests ],
	[ qw(create2 getChildren create2 getChildren delete),
		qw(create2 getChildren delete create2 getChildren getChildren) ],
	'a lock is kept from its third node on');
my $late = time() + 0.2;
wait_until('the hand-over time is over', sub { time() > $late });
$proxy->mark;
is( $session->query(
		q(DO $$ BEGIN
			FOR i IN 1 .. 1000 LOOP
				ASSERT zk_lock_acquire('/kept/cost');
				ASSERT zk_lock_release('/kept/cost');
			END LOOP;
		END $$)),
	'',
	'a kept lock is taken and released a thousand times');
is( $session->query(
		q(BEGIN; SELECT zk_lock_guard('/kept/cost') > 0; COMMIT)),
	't',
	'... and in a transaction');
my $other = ZkTest->new($node);
is($other->query(q(SELECT zk_lock_acquire('/kept/cost', '0'))),
	't', '... and by another backend');
$other->query(q(SELECT zk_lock_release('/kept/cost')));
$proxy->wait_idle;
is_deeply([ grep { $_ ne 'getChildren' } map { $_->{op} } $proxy->requests ], [],
	'... with no request but for a list every few seconds');
is(scalar $zk->children('/kept/cost'), 1, '... and on one node');
wait_until('... which the statistics count',
	sub {
		$node->safe_psql('postgres', 'SELECT kept_grants, handovers FROM zk_lock_stats') eq
		  '1002|0';
	});
is( $node->safe_psql('postgres',
		'SELECT count(*), (SELECT listed FROM zk_server_status) FROM zk_locks'),
	'0|0',
	'nobody holds the lock');

# Another client gets it with one round trip more. The server does not keep this
# lock for a while.
my $rival_proxy = ZkProxy->new($zk->hosts);
my $rival = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $rival_proxy->hosts);
$rival->connect;
$rival_proxy->wait_idle;
my $answer;
is( $rival_proxy->flights(
		sub { $answer = $rival->query(q(SELECT zk_lock_acquire('/kept/cost'))) }, 0.5),
	2,
	'another client takes an idle kept lock in two flights');
is($answer, 't', '... and has it');
$session->start(q(SELECT zk_lock_acquire('/kept/cost')));
wait_until('the server waits for it', sub { $zk->children('/kept/cost') == 2 });
$rival->query(q(SELECT zk_lock_release('/kept/cost')));
is($session->result, 't', 'the server gets it back');
$session->query(q(SELECT zk_lock_release('/kept/cost')));
use_lock($session, '/kept/cost') for 1 .. 4;
wait_until_gone('/kept/cost');

# Who holds it keeps it until it is released, however often its server uses it.
warm($session, '/kept/held');
$session->query(q(SELECT zk_lock_acquire('/kept/held')));
$rival->start(q(SELECT zk_lock_acquire('/kept/held')));
wait_until('another client waits', sub { $zk->children('/kept/held') == 2 });
$late = time() + 0.2;
wait_until('the hand-over time is over', sub { time() > $late });
ok(!$rival->is_done, 'another client waits for the holder of a kept lock');
$session->start(
	q(SELECT zk_lock_release('/kept/held'), zk_lock_acquire('/kept/held')));
is($rival->result, 't', '... and has it when the holder releases it');
ok(!$session->is_done, '... although its server wants it again');
$rival->query('SELECT zk_lock_release_all()');
is($session->result, 't|t', 'the server gets it back');
$session->query('SELECT zk_lock_release_all()');

# A server that never stops to use the lock makes way as well.
warm($session, '/kept/busy');
$session->start(
	q(DO $$ BEGIN
		LOOP
			PERFORM zk_lock_acquire('/kept/busy');
			PERFORM zk_lock_release('/kept/busy');
			EXIT WHEN clock_timestamp() > now() + interval '1min';
		END LOOP;
	END $$));
$late = time() + 0.5;
wait_until('the server uses the lock for a while', sub { time() > $late });
my $began = time();
is($rival->query(q(SELECT zk_lock_acquire('/kept/busy'))),
	't', 'another client gets a lock that a server uses all the time');
cmp_ok(time() - $began, '<', 10, '... soon');
ok(!$session->is_done, '... while the server still uses it');
$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $session->pid})");
like($session->result, qr/^ERROR:  57014: /, '... until it is cancelled');
$_->query('SELECT zk_lock_release_all()') for $rival, $session;

# Who does not want to wait gets a lock that is only kept, whoever has the session, and
# is refused if it is held.
my $second = new_node('second', $zk->hosts, %keep);
my $neighbour = ZkTest->new($second)->connect;
for my $trier ($rival, $neighbour)
{
	my $path = '/kept/try-' . ($trier == $rival ? 'own' : 'server');
	my $tries = 0;

	# The server has 50 ms to give it up. On a busy machine that can be too short, but
	# not for one lock after the other.
	wait_until(
		'a kept lock is free for who does not wait',
		sub {
			my $kept = "$path/" . ++$tries;

			warm($session, $kept);
			return $trier->query("SELECT zk_lock_acquire('$kept', '0')") eq 't';
		});
	is($trier->query('SELECT zk_lock_release_all()'),
		1, 'a kept lock is free for who does not wait');
	warm($session, "$path/held");
	$session->query("SELECT zk_lock_acquire('$path/held')");
	is($trier->query("SELECT zk_lock_acquire('$path/held', '0')"),
		'f', '... and refused while it is held');
	like(
		$trier->query("SELECT zk_lock_guard('$path/held', '0')"),
		$trier == $rival
		? qr/^ERROR:  55P03: .*\nDETAIL:  The lock is held by host=\S+ port=${\ $node->port} pid=${\ $session->pid} /
		: qr/^ERROR:  55P03: .*\nDETAIL:  The lock is held or kept by host=\S+ port=${\ $node->port} \(node /,
		'... with a detail that names the holder, or only its server');
	is($session->query('SELECT zk_lock_release_all()'), 1, '... until it is released');
	wait_until_gone("$path/held");
	is($trier->query("SELECT zk_lock_acquire('$path/held', '0'), zk_lock_release_all()"),
		't|1', '... and free again');
}

# Everybody sees whether the lock may be kept, but only its server knows whether it is.
sub seen
{
	my ($viewer, $path) = @_;

	return $viewer->query("SELECT state, kept, port, pid FROM zk_lock_queue('$path')");
}

warm($session, '/kept/seen');
my $port = $node->port;
is(seen($rival, '/kept/seen'), "holder|t|$port|", 'the queue shows that a lock is kept');
is(seen($neighbour, '/kept/seen'), "holder||$port|", '... on another server, that it may be');
$other->query(q(SELECT zk_lock_acquire('/kept/seen')));
is(seen($rival, '/kept/seen'), "holder|f|$port|${\ $other->pid}",
	'the queue shows who holds a kept lock, whoever has created its node');
is(seen($neighbour, '/kept/seen'), "holder||$port|", '... on another server, only the server');
$neighbour->query(q(SET deadlock_timeout = '2s'; SET log_lock_waits = on));
$neighbour->start(q(SELECT zk_lock_acquire('/kept/seen')));
wait_until('its wait is logged',
	sub {
		slurp_file($second->logfile) =~
		  /still waiting for ZooKeeper lock on "\/kept\/seen".*\n.*DETAIL:  The lock is held or kept by host=\S+ port=$port \(node /;
	});
is( $second->safe_psql('postgres',
		'SELECT blocking_state, blocking_port, blocking_pid FROM zk_lock_blockers'),
	"holder|$port|", 'so does zk_lock_blockers');
is( $node->safe_psql('postgres', 'SELECT pid, granted FROM zk_locks'),
	$other->pid . '|t', 'zk_locks shows the holder on its server');
$other->query('SELECT zk_lock_release_all()');
is($neighbour->result, 't', 'the other server gets the lock');
is($neighbour->query('SELECT zk_lock_release_all()'), 1, '... and releases it');

# So it is for the mutex of a semaphore.
$other->query(q(SELECT zk_semaphore_acquire('/kept/semaphore', 1)));
$session->start(q(SELECT zk_semaphore_acquire('/kept/semaphore', 1)));
wait_until('the queue of a semaphore shows who waits for it',
	sub {
		$rival->query(
			q(SELECT string_agg(pid::text, ' ' ORDER BY mode DESC, position) FROM zk_lock_queue('/kept/semaphore'))
		) eq join(' ', $other->pid, $session->pid, $session->pid);
	});
$other->query('SELECT zk_lock_release_all()');
is($session->result, 't', '... until it has a lease');
$session->query('SELECT zk_lock_release_all()');

# Servers that take turns keep nothing, and send what they send without the setting.
sub requests_in_turn
{
	my ($path) = @_;

	$proxy->wait_idle;
	$proxy->mark;
	for my $user (($session, $neighbour) x 5)
	{
		use_lock($user, $path);
		wait_until_gone($path);
	}
	$proxy->wait_idle;
	return [
		map {
			my $below = ($_->{path} // '') =~ s/^\Q$path\E//r;

			"$_->{op} " . $below =~ s/_c_[-0-9a-f]{36}|\d{10}/?/gr;
		  }
		  $proxy->requests
	];
}

$zk->make_path('/kept/turns');
my $in_turn = requests_in_turn('/kept/turns/with');
is(scalar(grep { /^create2 .*-lock-/ } @$in_turn),
	1 + 5, 'servers that take turns create a node each time, once in vain without a parent');
change_setting($node, 'zklock.keep_time', '0', $session);
is_deeply($in_turn, requests_in_turn('/kept/turns/none'),
	'servers that take turns send the same requests with and without zklock.keep_time');
change_setting($node, 'zklock.keep_time', '1min', $session);
$neighbour->close;
$second->stop;

# Readers of the same server conflict with a kept lock.
warm($session, '/kept/read');
is( $session->query(
		q(SELECT zk_lock_acquire('/kept/read', mode => 'shared'), zk_lock_release_all())),
	't|1',
	'a kept lock makes way for a reader of its server');

# They do not count as other clients: the lock is kept again without a pause.
my $reader = ZkTest->new($node)->connect;
warm($session, '/kept/readers');
$session->query(q(SELECT zk_lock_acquire('/kept/readers')));
$late = time() + 0.2;
wait_until('the hand-over time is over', sub { time() > $late });
$reader->start(q(SELECT zk_lock_acquire('/kept/readers', mode => 'shared')));
wait_until('a reader waits', sub { $zk->children('/kept/readers') == 2 });
$session->query(q(SELECT zk_lock_release('/kept/readers')));
is($reader->result, 't', 'a reader of the server waits for the holder of a kept lock');
$reader->close;
wait_until_gone('/kept/readers');
warm($session, '/kept/readers');

# A node that was deleted by hand is noticed.
warm($session, '/kept/deleted');
my $token = use_lock($session, '/kept/deleted');
$zk->delete('/kept/deleted/' . ($zk->children('/kept/deleted'))[0]);
wait_until('the next holder has another node',
	sub { use_lock($session, '/kept/deleted') != $token });

sub nkept
{
	return scalar grep { $zk->children($_) } @_;
}

# No more than zklock.max_kept_locks
change_setting($node, 'zklock.keep_time', '0', $session);
wait_until_gone(map { "/kept/$_" } qw(cost held read deleted));
change_setting($node, 'zklock.max_kept_locks', '2', $session);
change_setting($node, 'zklock.keep_time', '1min', $session);
my @paths = map { "/kept/many/$_" } 1 .. 4;
$session->query('SET zklock.max_locks_per_backend = 1');
for my $path (@paths)
{
	use_lock($session, $path) for 1 .. 4;
}
wait_until('two locks are kept, whatever the limit of a backend', sub { nkept(@paths) == 2 });
$session->query('RESET zklock.max_locks_per_backend');
change_setting($node, 'zklock.handover_time', '0', $session);
wait_until_gone(@paths);
change_setting($node, 'zklock.handover_time', '100ms', $session);
change_setting($node, 'zklock.max_kept_locks', '1024', $session);

# Planned ends of the session do not wait for kept locks.
@paths = map { "/kept/end/$_" } 1 .. 5;
warm($session, @paths);
my $worker = worker_of($node);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
wait_for_other_worker($node, $worker);
is(nkept(@paths), 0, 'the worker ends though locks are kept');
warm($session, @paths);
change_setting($node, 'zklock.session_timeout', '50s', $session);
wait_until_gone(@paths);
wait_until('the new settings are in force',
	sub {
		$session->query(q(SELECT zk_lock_acquire('/kept/end'), zk_lock_release_all()));
		$session->query('SELECT timeout FROM zk_session()') =~ /50/;
	});
pass('changed settings do not wait for kept locks');

# After a crash of the server they are free.
warm($session, @paths);
$worker = worker_of($node);
crash_server($node, $worker);
wait_until_gone(@paths);
pass('kept locks are free after a crash');
$session = ZkTest->new($node)->connect;

# Backends that need room have precedence.
my $small = new_node('small', $zk->hosts, %keep, 'zklock.max_locks' => 16);
my $user = ZkTest->new($small)->connect;
@paths = map { "/kept/room/$_" } 1 .. 8;
for my $path (@paths)
{
	use_lock($user, $path) for 1 .. 4;
}
my $nkept = nkept(@paths);
cmp_ok($nkept, '>', 4, 'locks are kept in free room');
my $rest = 16 - $nkept;
is( $user->query(
		"SELECT count(*) FROM generate_series(1, $rest) AS i
		 WHERE zk_lock_acquire('/kept/rest/' || i)"),
	$rest,
	'the rest of the room is used');
is($small->safe_psql('postgres', 'SELECT listed, unlisted FROM zk_server_status'),
	"$rest|0", '... which the statistics show');
my $own = ZkTest->new($small, OWN_SESSION, 'zklock.hosts' => $zk->hosts);
$began = time();
$own->query(q(SELECT zk_lock_acquire('/kept/own')));

# As soon as there is room, the others may stay.
wait_until('a kept lock is given up', sub { nkept(@paths) < $nkept });
cmp_ok(time() - $began, '<', 30, '... before zklock.keep_time is over');
is($own->query(q(SELECT zk_lock_acquire('/kept/own/second'), count(*) FROM zk_locks)),
	't|' . ($rest + 1), 'a backend with a session of its own gets room, too');
$_->query('SELECT zk_lock_release_all()') for $user, $own;
for my $path (@paths)
{
	use_lock($user, $path) for 1 .. 4;
}
cmp_ok(nkept(@paths), '>', 4, 'locks are kept again');
is( $user->query(
		q(SELECT count(*) FROM generate_series(1, 16) AS i
		  WHERE zk_lock_acquire('/kept/other/' || i))),
	16,
	'all the room is available to backends');
is($user->query('SELECT zk_lock_release_all()'), 16, '... and is free again');
$small->stop;

# An idle server gives up its locks, and is silent.
change_setting($node, 'zklock.keep_time', '1s', $session);
warm($session, '/kept/idle');
wait_until_gone('/kept/idle');
$proxy->wait_idle;
$proxy->mark;
$late = time() + 5;
wait_until('five seconds have passed', sub { time() > $late });
is_deeply([ map { $_->{op} } $proxy->requests ], [], 'an idle server sends no requests');

done_testing();
