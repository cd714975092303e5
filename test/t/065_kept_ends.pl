# Locks that a server keeps (zklock.keep_time) when its settings change, its worker stops or
# ends, it crashes, or ZooKeeper's servers are restarted: nothing is lost, and nothing is
# left. Their grants are ordered.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.
# Shortened unless ZKLOCK_LONG is set: 100 kept locks at a crash, not 500; 200 at a
# restart of ZooKeeper's servers, not 1,000; 6,000 ordered grants, not 100,000.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkClient;
use ZkEnsemble;
use ZkProxy;
use ZkServer;
use ZkTest;

my %settings = (
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '60s',
	'zklock.keep_time' => '1min',
	'zklock.max_kept_locks' => 8192,
	'zklock.max_locks' => 4096,
	restart_after_crash => 'on');

# Uses locks below a path often enough that they are kept.
sub warm
{
	my ($session, $path, $n) = @_;

	is( $session->query(
			"DO \$\$ BEGIN
				FOR i IN 1 .. 4 LOOP
					FOR n IN 1 .. $n LOOP
						ASSERT zk_lock_acquire('$path/' || n);
						ASSERT zk_lock_release('$path/' || n);
					END LOOP;
				END LOOP;
			END \$\$"),
		'',
		"$n locks are used");
	return;
}

sub nkept
{
	my ($zk, $path, $n) = @_;
	my $client = ZkClient->new($zk->hosts);
	my $kept = grep { $client->children("$path/$_") } 1 .. $n;

	$client->close;
	return $kept;
}

sub wait_for
{
	my ($seconds) = @_;
	my $until = time() + $seconds;

	wait_until("$seconds seconds have passed", sub { time() > $until });
	return;
}

{
	my $zk = ZkServer->new->start;
	my $proxy = ZkProxy->new($zk->hosts);
	my $node = new_node('main', $proxy->hosts, %settings);
	my $session = ZkTest->new($node)->connect;
	my $n = 20;

	# Each setting takes effect at once, also on locks that are kept already.
	for (
		[ 'zklock.max_kept_locks', '0', '1024', 0 ],
		[ 'zklock.max_kept_locks', '7', '1024', 7 ],
		[ 'zklock.keep_time', '0', '1min', 0 ],
		[ 'zklock.handover_time', '0', '100ms', 0 ])
	{
		my ($name, $value, $before, $left) = @$_;
		my $path = '/ends' . ($name =~ s/.*\.//r) . $value;

		warm($session, $path, $n);
		is(nkept($zk, $path, $n), $n, '... and kept');
		change_setting($node, $name, $value, $session);
		wait_until("$left locks are kept", sub { nkept($zk, $path, $n) == $left });
		warm($session, $path, $n);
		wait_until("... if they are used, too", sub { nkept($zk, $path, $n) <= $left });
		change_setting($node, 'zklock.keep_time', '0', $session);
		wait_until('no lock is kept', sub { nkept($zk, $path, $n) == 0 });
		change_setting($node, $name, $before, $session);
		change_setting($node, 'zklock.keep_time', '1min', $session);
	}

	# Only so many locks are kept that their watches fit into one request.
	my $long = '/' . 'x' x 1000;

	warm($session, $long, 150);
	my $kept = nkept($zk, $long, 150);
	cmp_ok($kept, '>', 100, 'locks with long paths are kept');
	cmp_ok($kept, '<', 150, '... but not all of them');
	$session->query(q(SELECT zk_lock_acquire('/ends/held')));
	$proxy->cut;
	wait_until('they are given up', sub { nkept($zk, $long, 150) == 0 });
	is( $session->query(
			q(SET zklock.confirm_commit = always; SELECT zk_lock_release('/ends/held'))),
		't',
		'... when the connection is lost, and the session is not');

	# A worker that was suspended may have lost news. It discards them after a third of the
	# session timeout.
	change_setting($node, 'zklock.session_timeout', '9s', $session);
	wait_until('the new settings are in force',
		sub {
			$session->query(q(SELECT zk_lock_acquire('/ends'), zk_lock_release_all()));
			$session->query('SELECT timeout FROM zk_session()') =~ /09$/;
		});
	for my $pause (0.5, 4)
	{
		my $path = "/ends/news$pause";
		my $user = ZkTest->new($node);

		warm($session, $path, 3);
		is(nkept($zk, $path, 3), 3, '... and kept');
		$session->query("SELECT zk_lock_acquire('$path/2')");
		$user->start(
			"DO \$\$ BEGIN
				LOOP
					PERFORM zk_lock_acquire('$path/3'), pg_sleep(0.001);
					PERFORM zk_lock_release('$path/3');
				END LOOP;
			END \$\$");
		wait_until('the third lock is in use',
			sub { $node->safe_psql('postgres', 'SELECT count(*) FROM zk_locks') >= 1 });
		my $worker = worker_of($node);
		kill('STOP', $worker);
		my @rivals = map {
			ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $zk->hosts)
		} 1 .. 3;
		$rivals[ $_ - 1 ]->start("SELECT zk_lock_acquire('$path/$_')") for 1 .. 3;
		for my $i (1 .. 3)
		{
			wait_until('another client waits', sub { $zk->children("$path/$i") >= 2 });
		}
		wait_for($pause);
		ok(!$rivals[0]->is_done, 'a worker that is suspended keeps a lock');
		my $began = time();
		kill('CONT', $worker);
		is($rivals[0]->result, 't', '... and gives it up later');
		is($rivals[2]->result, 't', '... as it does with one in use');
		cmp_ok(time() - $began, '<', 5, '... before its next list');
		ok(!$rivals[1]->is_done, '... but not with one that is held');
		is($session->query('SELECT zk_lock_release_all()'), 1, '... until it is released');
		is($rivals[1]->result, 't', '... when the other client gets it');
		$_->close for @rivals;
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $user->pid})");
		like($user->result, qr/^ERROR:  57014: /, 'nobody has lost a lock');
		$user->close;
	}

	# The last kept lock ends the renewals of the session, too.
	change_setting($node, 'zklock.keep_time', '1s', $session);
	warm($session, '/ends/silent', 3);
	wait_for(1 + 1 + 9 / 6 + 0.5);
	is(nkept($zk, '/ends/silent', 3), 0, 'unused locks are given up');
	$proxy->wait_idle;
	$proxy->mark;
	wait_for(9 + 1);
	is(scalar $proxy->trace, 0, '... and an idle server sends nothing');
	change_setting($node, 'zklock.keep_time', '1min', $session);

	# A drained worker, and a crash
	$n = sample_of(500, 100);
	warm($session, '/ends/many', $n);
	is(nkept($zk, '/ends/many', $n), $n, '... and kept');
	$session->query(q(SELECT zk_lock_acquire('/ends/many/1')));
	my $worker = worker_of($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
	wait_until('a worker that is terminated keeps what is held only',
		sub { nkept($zk, '/ends/many', $n) == 1 });
	is($session->query('SELECT zk_lock_release_all()'), 1, 'no lock is lost');
	wait_for_other_worker($node, $worker);
	is(nkept($zk, '/ends/many', $n), 0, '... or left');

	warm($session, '/ends/many', $n);
	is(nkept($zk, '/ends/many', $n), $n, '... and kept');
	my $began = time();
	crash_server($node, worker_of($node));
	my $rival = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $zk->hosts);
	is( $rival->query("SELECT zk_lock_acquire_all(array_agg('/ends/many/' || i))
			FROM generate_series(1, $n) AS i"),
		't',
		"$n kept locks are free after a crash");
	note(sprintf('%.1f s', time() - $began));
	$rival->query('SELECT zk_lock_release_all()');
	$_->close for $rival, $session;
	$node->stop;
	is(nkept($zk, '/ends/many', $n), 0, 'nothing is left');
}

# ZooKeeper's servers are restarted one by one while the locks are in use.
{
	my $zk = ZkEnsemble->new(size => 3, tick_time => 500)->start;
	my $node = new_node('rolling', $zk->hosts, %settings, 'zklock.session_timeout' => '15s');
	my @sessions = map { ZkTest->new($node)->connect } 1 .. 3;
	my $n = sample_of(1000, 200);

	warm($sessions[0], '/rolling', $n);
	$_->start(
		"DO \$\$ BEGIN
			LOOP
				PERFORM zk_lock_acquire('/rolling/' || n), zk_lock_release('/rolling/' || n)
				FROM generate_series(1, $n) AS n;
				PERFORM pg_sleep(0.01);
			END LOOP;
		END \$\$") for @sessions;
	for my $server ($zk->servers)
	{
		$server->stop;
		$zk->wait_for_quorum;
		$server->start;
		$zk->wait_for_quorum;
	}
	ok(!(grep { $_->is_done } @sessions),
		"users of $n kept locks survive a restart of each of ZooKeeper's servers");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $_->pid})") for @sessions;
	like($_->result, qr/^ERROR:  57014: /, '... without a lost lock') for @sessions;
	is($node->safe_psql('postgres', 'SELECT losses, expiries, errors FROM zk_lock_stats'),
		'0|0|0', '... as the statistics show');
	warm($sessions[0], '/rolling', $n);
	my ($server) = $zk->servers;
	wait_until('they are kept again',
		sub { nkept($server, '/rolling', $n) > 0 });
	change_setting($node, 'zklock.keep_time', '0', $sessions[0]);
	wait_until('nothing is left', sub { nkept($server, '/rolling', $n) == 0 });
	$node->stop;
	$zk->stop;
}

# Grants by hand-over, of kept locks, and to other clients: token and number grow.
{
	my $zk = ZkServer->new->start;
	my $node = new_node('order', $zk->hosts, %settings);
	my ($paths, $clients, $rounds) = (40, 4, sample_of(100_000, 6000) / 5);
	my @users = (
		(map { ZkTest->new($node) } 1 .. $clients),
		ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $zk->hosts));

	$node->safe_psql('postgres', q(
		CREATE SEQUENCE turn;
		CREATE TABLE grants (path int, turn bigint, token bigint, number bigint, kind text);
		CREATE PROCEDURE use(paths int, rounds int, name text, rare bool) LANGUAGE plpgsql AS $$
		DECLARE
			p int;
			lock text;
			t bigint;
		BEGIN
			FOR i IN 1 .. rounds LOOP
				p := CASE WHEN rare THEN i * paths / rounds ELSE random() * paths END;
				lock := '/order/' || p;
				t := zk_lock_guard(lock);
				IF i % 10 = 0 THEN
					PERFORM zk_lock_fence(lock);
				END IF;
				INSERT INTO grants
				VALUES (p, nextval('turn'), t, zk_lock_grant_number(lock), name);
				COMMIT;
			END LOOP;
		END $$));
	$_->connect for @users;
	for my $i (0 .. $#users)
	{
		my $rare = $i == $#users ? 'true' : 'false';

		$users[$i]->start("CALL use($paths, $rounds, 'user $i', $rare)");
	}
	is(join('', map { $_->result } @users), '', 'no holder is refused by a fence');
	is( $node->safe_psql('postgres', q(
			SELECT count(*) FROM (
				SELECT (token, number) > (lag(token) OVER w, lag(number) OVER w) AS grows
				FROM grants WINDOW w AS (PARTITION BY path ORDER BY turn)) AS g
			WHERE NOT grows)),
		0,
		sprintf('%d grants are ordered by token and number', 5 * $rounds));
	is($node->safe_psql('postgres', 'SELECT count(*) FROM grants'), 5 * $rounds, '... all of them');
	my ($kept, $passed, $waited) = split(/\|/,
		$node->safe_psql('postgres', 'SELECT kept_grants, handovers, contended FROM zk_lock_stats'));
	cmp_ok($kept, '>', 0, "... $kept of kept locks");
	cmp_ok($passed, '>', 0, "... $passed of handed over ones");
	cmp_ok($waited, '>', $passed, '... and others');
	$node->stop;
}

done_testing();
