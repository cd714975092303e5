# What a role that may just connect can do to others: calls in a loop, given
# up, nested, or left behind. Role shop is confined and limited as
# docs/security.md describes; role unlimited is not. After each attack, another
# session acquires a lock as usual.
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
# ZooKeeper is restarted, which may take long on a busy machine. And a ZooKeeper that starts may
# leave a connection unanswered for ever, which the client ends after two thirds of the timeout.
my $node = new_node(
	'main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.connect_timeout' => '2min',
	'zklock.session_timeout' => '2min');

$node->safe_psql('postgres', q(
	CREATE ROLE unlimited LOGIN;
	CREATE ROLE shop LOGIN CONNECTION LIMIT 20;
	ALTER ROLE shop SET zklock.path_prefix = '/shop';
	ALTER ROLE shop SET zklock.max_locks_per_backend = 3));

# A session of a role
sub session_of
{
	my ($role, %settings) = @_;

	return session_on($node, $role, %settings);
}

sub session_on
{
	my ($server, $role, %settings) = @_;
	local $ENV{PGUSER} = $role;

	return ZkTest->new($server, %settings);
}

my $other = ZkTest->new($node)->connect;

# Another session is not affected.
sub others_unaffected
{
	my ($what) = @_;

	is($other->query(q(SELECT zk_lock_acquire('/other', '20s'), zk_lock_release_all())),
		't|1', "$what: other sessions are not affected");
	return;
}

others_unaffected('at first');

# 1. Statements that change the backend's locks while zk_lock_status() returns
# them

# Between two rows, the statement releases all locks and makes a request, so
# that their nodes are gone; or it switches to the backend's own session, whose
# serial number is the same as that of the server's session. All rows show the
# state before the statement.
for my $change ('', q(set_config('zklock.session_mode', 'backend', false)))
{
	my $session =
	  $change eq ''
	  ? session_of('unlimited')
	  : ZkTest->new($node, 'zklock.session_mode' => 'server')->connect;

	$session->query(q(
		SELECT FROM zk_lock_queue('/shown');
		SET zklock.revocable = on;
		SELECT zk_lock_acquire('/shown/' || i) FROM generate_series(1, 200) i));
	my $answer = $session->query(sprintf(q(
		WITH rows AS MATERIALIZED (
			SELECT zk_lock_status() AS lock, zk_lock_release_all() AS released, %s
				(SELECT count(*) FROM zk_lock_queue('/shown/' || repeat('z', 70))))
		SELECT count(*), sum(released), bool_or((lock).lost), bool_or((lock).revoked)
		FROM rows WHERE (lock).path LIKE '/shown/%%'), $change && "$change,"));
	is($answer, '200|200|f|f', 'rows show locks as held while they are released')
	  or diag("with $change");
	is($session->query('SELECT count(*) FROM zk_locks'),
		'0', '... and no lock is shown after that');
	$session->close;
	others_unaffected('locks released while they are shown');
}


# 2. Attempts that are given up at once

# If each backend has its own session, these attempts use no shared resources.
SKIP:
{
	skip('there is no shared session', 1) if !server_mode();

	my ($connections, $limit, $share) = (20, 3, 16);
	my $most = $connections * $limit;
	my $proxy = ZkProxy->new($zk->hosts);
	my $silent = new_node(
		'silent', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '10min',
		'zklock.max_locks' => 2 * $most);
	my $shop_session = sub {
		local $ENV{PGUSER} = 'shop';
		return ZkTest->new($silent);
	};
	my $listed = sub {
		return $silent->safe_psql('postgres', 'SELECT listed FROM zk_server_status');
	};
	my $n = 0;
	my $give_up = sub {
		return join(';', map {
			$n++;
			"SELECT zk_lock_acquire_all('{/shop/$n/a, /shop/$n/b, /shop/$n/c}', '1us')"
		} 1 .. shift);
	};

	$silent->safe_psql('postgres', qq(
		CREATE ROLE shop LOGIN CONNECTION LIMIT $connections;
		ALTER ROLE shop SET zklock.max_locks_per_backend = $limit));
	my $bystander = ZkTest->new($silent)->connect;
	my @shop = map { $shop_session->() } 1 .. $connections;
	my ($hostile, $committer) = @shop;
	is($committer->query(q(BEGIN; SELECT zk_lock_acquire('/shop/held', scope => 'transaction'); SAVEPOINT s)),
		't', 'lock is held before ZooKeeper stops answering');
	wait_until('no other lock is listed', sub { $listed->() == 1 });
	$proxy->hold('s2c', pings => 1);

	# Enough attempts to fill shared memory twice
	$_->start($give_up->(4)) for grep { $_ != $committer } @shop;
	unlike(join('', map { $_->result } @shop), qr/^t$|ERROR:  (?!08006)/m,
		'attempts fail because ZooKeeper does not answer');
	cmp_ok($listed->(), '<=', $most, '... and take no more room than the role may hold');
	like($bystander->query(q(SELECT zk_lock_acquire('/other', '100ms'))), qr/^ERROR:  08006/,
		'another session gets the same error');

	# Backends that have to wait
	my $next = q(SELECT zk_lock_acquire('/shop/next'));
	my $unfinished =
	  qr/^ERROR:  08006: ZooKeeper did not answer in time\nDETAIL:  Locks that were released or given up before are not removed yet: 3 of this session,/;

	# An attempt that the worker had not begun when it was given up ends at
	# once, so it takes several.
	wait_until('the number of unfinished attempts is at its limit',
		sub {
			$n++;
			$hostile->query("SELECT zk_lock_acquire('/shop/$n', '1us')") =~ $unfinished;
		});
	like($hostile->query(q(SELECT zk_lock_acquire('/shop/next', '100ms'))), $unfinished,
		'backend with too many unfinished attempts waits within its timeout');
	like($hostile->query(q(SELECT zk_lock_acquire('/shop/next', '0'))), $unfinished,
		'... also without a timeout for the lock');
	like($hostile->query("SET lock_timeout = '100ms'; $next; RESET lock_timeout"), qr/^ERROR:  55P03/,
		'... within its own lock_timeout');
	$hostile->start($next);
	wait_until('the backend waits',
		sub {
			$silent->safe_psql('postgres',
				q(SELECT count(*) FROM zk_locks WHERE path = '/shop/next')) == 1;
		});
	$silent->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $hostile->pid . ')');
	like($hostile->result, qr/^ERROR:  57014/, '... until it is cancelled');
	like($committer->query($give_up->(1)), qr/^ERROR:  53400/, 'held locks count, too');
	like($committer->query(q(ROLLBACK TO s; SELECT zk_lock_acquire_all('{/shop/1, /shop/2}', '1us'))),
		qr/^ERROR:  08006/, '... and attempts that are given up in a transaction');
	is($committer->query('ROLLBACK TO s; COMMIT'), '', '... whose end does not wait');

	# Backends that have ended
	my $before = $listed->();
	for (1 .. $share)
	{
		my $session = pop @shop;

		$session->close;
		wait_until('its backend has ended',
			sub {
				$silent->safe_psql('postgres',
					q(SELECT count(*) FROM pg_stat_activity WHERE usename = 'shop')) < $connections;
			});
		$session = $shop_session->();
		like($session->query($give_up->(1)), qr/^ERROR:  08006/,
			'attempt of a new backend is not served');
		push @shop, $session;
	}
	cmp_ok($listed->(), '<=', $before + $share + $limit,
		'attempts left behind count for the role, however often it reconnects');
	my $waiter = $shop[-1];
	$waiter->start($next);
	$hostile->start($next =~ s/next/last/r);
	$proxy->reset;
	is(join(' ', map { $_->result } $waiter, $hostile), 't t',
		'backends get their locks when ZooKeeper answers');
	is($bystander->query(q(SELECT zk_lock_acquire('/other'), zk_lock_release_all())), 't|1',
		'... and so does another session');
	$_->close for @shop;
	wait_until_idle($silent, $zk);
	pass('no claim or node is left');
	$silent->stop;
}


# 3. Many concurrent attempts

SKIP:
{
	skip('there is no worker', 1) if !server_mode();

	my $proxy = ZkProxy->new($zk->hosts);
	my $busy = new_node(
		'busy', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.max_locks' => 5000,    # more than four sessions ask for at a time
		'zklock.session_timeout' => '10min');
	my $attacker_session = sub {
		local $ENV{PGUSER} = 'unlimited';
		return ZkTest->new($busy);
	};
	my $thousand = sub {
		my ($path, $timeout) = @_;
		return qq(SELECT zk_lock_acquire_all(array_agg('$path/' || i), '$timeout') FROM generate_series(1, 1000) AS i);
	};

	$busy->safe_psql('postgres', 'CREATE ROLE unlimited LOGIN');
	my $bystander = ZkTest->new($busy)->connect;
	my $attacker = $attacker_session->();

	# The worker serves backends in turns.
	$proxy->mark;
	$proxy->hold('s2c', pings => 1);
	$attacker->start($thousand->('/thousand', '60s'));
	wait_until('a thousand locks are requested',
		sub {
			$busy->safe_psql('postgres',
				q(SELECT count(*) FROM zk_locks WHERE path LIKE '/thousand/%')) == 1000;
		});
	$proxy->wait_idle;
	$bystander->start(q(SELECT zk_lock_acquire('/other')));
	wait_until('the other lock is requested',
		sub {
			$busy->safe_psql('postgres', q(SELECT count(*) FROM zk_locks WHERE path = '/other')) == 1;
		});
	$proxy->release;
	is($bystander->result,
		't', 'a session gets a lock while another one requests a thousand');
	is($attacker->result, 't', '... which also get granted');
	my %before;
	for my $frame ($proxy->requests)
	{
		my ($path) = ($frame->{path} // '') =~ m{^(.*)/_c_} or next;

		last if $path eq '/other';
		$before{$path} = 1;
	}
	cmp_ok(scalar(keys %before), '<', 500, '... after fewer than half of the thousand');
	$bystander->query('SELECT zk_lock_release_all()');
	$attacker->query('SELECT zk_lock_release_all()');
	$proxy->reset;

	# Four sessions fill shared memory with attempts that they give up at once.
	my @attackers = ($attacker, map { $attacker_session->() } 2 .. 4);
	# On a slow machine, all may be granted before an attacker looks at the time.
	$_->start(join(';', map { $thousand->("/given/$_", '1us'), 'SELECT zk_lock_release_all()' } 1 .. 1000))
	  for @attackers;
	is(join(' ', map { $bystander->query(q(SELECT zk_lock_acquire('/other', '30s'), zk_lock_release_all())) } 1 .. 50),
		join(' ', ('t|1') x 50), 'another session gets locks while thousands are given up');
	is(scalar(grep { $_->is_done } @attackers), 0, '... all the time');
	$_->close for @attackers;
	wait_until_idle($busy, $zk);
	$busy->stop;
}


# 4. Watches on long paths

# Calls a function on paths of the maximum length until it is refused
sub take_all
{
	my ($attacker, $expression) = @_;

	like(
		$attacker->query("DO 'BEGIN FOR i IN 1..1100 LOOP PERFORM $expression; END LOOP; END'"),
		qr/^ERROR:  53200: too many ZooKeeper watches /,
		'number of watches is limited');
	return;
}

{
	my $attacker = session_of('unlimited', 'zklock.revocable' => 'on');
	my $kept = q(SELECT count(*), bool_or(lost), min(session_id), max(session_id) FROM zk_locks);

	$other->query(q(SELECT zk_lock_acquire('/kept')));
	take_all($attacker, q(zk_lock_acquire(''/r'' || i || repeat(''x'', 1010))));
	take_all($attacker, q(zk_semaphore_acquire(''/s'' || i || repeat(''x'', 1010), 1)));

	my $before = $other->query($kept);
	$zk->restart;
	is($other->query(q(SELECT zk_lock_acquire('/new', '5min'), zk_lock_release('/new'))),
		't|t', 'another session can acquire locks after ZooKeeper is restarted');
	is($attacker->query(q(SELECT zk_lock_acquire('/unlimited', '5min'), zk_lock_release('/unlimited'))),
		't|t', '... and so can the attacker');
	is($other->query($kept), $before, '... in the same sessions');
	is($other->query(q(SELECT zk_lock_release('/kept'))),
		't', '... and all locks are held');
	$attacker->close;
	others_unaffected('many watches');
}


# 5. Paths that look like contenders

{
	my $shop = session_of('shop');
	my $long = 'x' x 250;
	my @paths = map { "/shop/$_" } (
		'_c_x-lock-0000000000/a/a/a', '_c_x-__READ__0000000000', "${long}lock-0000000000/a",
		'leases/a', 'leases', 'locks');
	my $refused = qr/^ERROR:  (?:22023: invalid|42501: permission denied for) lock path/m;

	is($other->query(q(SELECT zk_lock_acquire('/shop'), zk_semaphore_acquire('/shop', 1),
			zk_lock_release_all())),
		't|t|2', "lock and semaphore are acquired above the role's prefix");
	for my $path (@paths)
	{
		like($shop->query('SELECT ' . sprintf($_, $path)), $refused, sprintf("$_ is refused", $path))
		  for q(zk_lock_acquire('%s')), q(zk_lock_acquire('%s', mode => 'simple')),
		  q(zk_lock_acquire_all('{%s}')), q(zk_semaphore_acquire('%s', 1));
	}
	is($shop->query("SELECT zk_lock_acquire('/shop/$long/a'),
			zk_semaphore_acquire('/shop/s', 1), zk_lock_acquire('/shop/locks/a')"),
		't|t|t', 'other paths can be locked');
	is($other->query(q(SELECT zk_lock_acquire('/shop', '20s'),
			zk_semaphore_acquire('/shop', 1, '20s'), zk_lock_release_all())),
		't|t|2', '... and block no other lock');
	$shop->close;
	others_unaffected('paths');
}

# 6. Connections to ZooKeeper

# The server needs one of the connections that ZooKeeper allows for this
# machine.
{
	my $narrow = ZkServer->new(config => { maxClientCnxns => 5 })->start;
	my $server = new_node('narrow', $narrow->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_mode' => 'server');
	$server->safe_psql('postgres', 'CREATE ROLE unlimited LOGIN');
	my ($first, @more) = map { session_on($server, 'unlimited') } 1 .. 8;
	my $denied = qr/^ERROR:  42501: permission denied to set parameter "zklock.session_mode"/m;

	like($first->query($_), $denied, "$_ is refused")
	  for q(SET zklock.session_mode = 'backend'),
	  q(SELECT set_config('zklock.session_mode', 'backend', false)),
	  q(ALTER ROLE unlimited SET zklock.session_mode = 'backend');
	$_->query(q(SET zklock.session_mode = 'backend')) for @more;
	is(join(' ', map { $_->query("SELECT zk_lock_acquire('/narrow/' || pg_backend_pid())") }
			$first, @more),
		't t t t t t t t', 'each backend of a role acquires a lock');
	is(scalar $narrow->sessions, 1, '... in one session');
	$_->close for $first, @more;
	$server->stop;
	$narrow->stop;
}
# A limited number of backends may connect to read queues beside the server's
# session. This test uses another server, and holds ZooKeeper's answers back.
{
	my $proxy = ZkProxy->new($zk->hosts);
	my $server = new_node(
		'shared', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_mode' => 'server',
		'zklock.session_timeout' => '10min',
		'zklock.connect_timeout' => '60s');
	my $few = 8;

	$server->safe_psql('postgres', 'CREATE ROLE unlimited LOGIN');

	my $holder = ZkTest->new($server);
	my @attackers = do
	{
		local $ENV{PGUSER} = 'unlimited';

		map { ZkTest->new($server) } 1 .. $few + 12;
	};
	my $waiting = sub {
		return $server->safe_psql('postgres',
			q(SELECT count(*) FROM pg_stat_activity
			  WHERE usename = 'unlimited' AND wait_event_type = 'Extension'));
	};

	my $connected = sub {
		return scalar(() = $zk->four_letter('cons') =~ /,sid=0x/g);
	};

	$holder->query(q(SELECT zk_lock_acquire('/held')));
	$proxy->wait_idle;
	my $before = $connected->();

	$proxy->hold('s2c', pings => 1);
	$_->start(q(SELECT count(*) FROM zk_lock_queue('/held'))) for @attackers;
	wait_until('all backends wait', sub { $waiting->() == @attackers });
	wait_until('some backends have connected', sub { $connected->() >= $before + $few });
	is($connected->(), $before + $few,
		'a limited number of backends are connected at a time');
	my $impatient = ZkTest->new($server, 'zklock.connect_timeout' => '500ms');
	like($impatient->query(q(SELECT count(*) FROM zk_lock_queue('/held'))),
		qr/^ERROR:  08001: could not connect to ZooKeeper\nDETAIL:  At most $few backends of a server/m,
		'... and others wait no longer than their zklock.connect_timeout');
	$impatient->close;

	# Some of the connected backends are among these.
	my $sessions = () = $zk->sessions;
	for my $attacker (splice(@attackers, 0, $few))
	{
		$server->safe_psql('postgres', "SELECT pg_terminate_backend(${\ $attacker->pid})");
		$attacker->close;
	}
	wait_until('other backends connect', sub { $sessions < (() = $zk->sessions) });
	wait_until('the number of connections is within its limit',
		sub { $connected->() <= $before + $few });
	is( $server->safe_psql('postgres',
			q(SELECT bool_and(pg_cancel_backend(pid)) FROM pg_stat_activity
			  WHERE usename = 'unlimited' AND state = 'active' AND pid <> pg_backend_pid())),
		't', 'remaining backends are cancelled');
	like($_->result, qr/^ERROR:  57014/,
		'wait for a connection can be cancelled') for @attackers;
	$_->start(q(SELECT count(*) FROM zk_lock_queue('/held'))) for @attackers;
	$proxy->release;
	is($_->result, 1, 'all backends get their result in the end') for @attackers;
	ok( wait_until('all connections are closed', sub { $connected->() == $before }),
		'... and no connection stays open');

	my $rule = $proxy->rule(
		dir => 's2c', op => 'getChildren', action => 'hold', pings => 1);
	$attackers[0]->start(q(SELECT count(*) FROM zk_lock_queue('/held')));
	wait_until('the request is sent', sub { $proxy->fired($rule) });
	$server->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $attackers[0]->pid})");
	like($attackers[0]->result, qr/^ERROR:  57014/, 'backend is cancelled during its request');
	$proxy->reset;
	ok( wait_until('its connection is closed', sub { $connected->() == $before }),
		'... and no connection stays open');
	is($holder->query(q(SELECT zk_lock_release('/held'))), 't', '... and no lock is lost');
	$_->close for $holder, @attackers;
	$server->stop;
}


# 7. Locks that are fenced and released

{
	my $attacker = session_of('unlimited');
	my $paths = join(', ', map { "/fenced/$_" } (0 .. 19));
	my $held = q(SELECT count(*), sum(session_holds), sum(transaction_holds) FROM zk_locks
		WHERE path LIKE '/fenced/%' AND granted);

	is($attacker->query(qq(BEGIN;
			SELECT zk_lock_acquire_all('{$paths}');
			SELECT count(zk_lock_fence('/fenced/' || i)) FROM generate_series(0, 19) i;
			SELECT zk_lock_release('/fenced/0');
			SELECT zk_lock_release_all())),
		"t\n20\nt\n19", 'role fences and releases locks');
	is($other->query($held), '20|0|20', '... which its transaction still holds');
	like($attacker->query(q(PREPARE TRANSACTION 'fenced')), qr/^ERROR:  0A000:/,
		'... and which prevent PREPARE TRANSACTION');

	$attacker->query(qq(BEGIN;
		SELECT zk_lock_acquire_all('{$paths}');
		SELECT zk_lock_fence('/fenced/' || i) FROM generate_series(0, 19) i;
		SELECT zk_lock_release_all()));
	$other->start(q(BEGIN;
		SELECT zk_lock_guard('/fenced/7') > 0, zk_lock_fence('/fenced/7') > 0;
		COMMIT));
	my ($waits, $blocker) = ($other->pid, $attacker->pid);
	wait_until('the next holder sees its blocker',
		sub { $node->safe_psql('postgres', qq(SELECT blocking_pid FROM zk_lock_blockers
			WHERE pid = $waits AND path = '/fenced/7')) eq $blocker });
	$attacker->query('COMMIT');
	is($other->result, 't|t', '... and gets the lock after the transaction');
	is($other->query($held), '0||', '... and no lock is left');
	$attacker->close;

	my $shop = session_of('shop');
	like($shop->query(q(BEGIN;
			SELECT zk_lock_acquire_all('{/shop/1, /shop/2, /shop/3}');
			SELECT count(zk_lock_fence('/shop/' || i)), zk_lock_release_all()
				FROM generate_series(1, 3) i;
			SELECT zk_lock_acquire('/shop/4'))),
		qr/^t\n3\|3\nERROR:  53400:/, '... fenced locks count until then');
	$shop->close;
	others_unaffected('locks fenced and released');
}

done_testing();
