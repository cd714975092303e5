# What a role that may connect, and nothing else, can do to everybody else: by calls in
# a loop, given up, nested in one another, or left behind. It is confined and limited as
# docs/security.md says; a guest is neither. After each of these somebody else takes a
# lock as if nothing had been.

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
my $node = new_node('main', $zk->hosts, shared_preload_libraries => 'zklock');

$node->safe_psql('postgres', q(
	CREATE ROLE guest LOGIN;
	CREATE ROLE shop LOGIN CONNECTION LIMIT 20;
	ALTER ROLE shop SET zklock.path_prefix = '/shop';
	ALTER ROLE shop SET zklock.max_locks_per_backend = 3));

# A session of that role
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

# Nobody else has noticed anything.
sub others_are_well
{
	my ($what) = @_;

	is($other->query(q(SELECT zk_lock_acquire('/other', '20s'), zk_lock_release_all())),
		't|1', "$what: others are well");
	return;
}

others_are_well('to begin with');

# 1. Statements that change what is held while it is shown

# Between two rows all locks are released, and ZooKeeper is asked for something, by
# when their nodes have gone; or the backend uses a session of its own from then on,
# whose number is the one that the server's had. All rows are of the time before.
for my $change ('', q(set_config('zklock.session', 'backend', false)))
{
	my $session =
	  $change eq ''
	  ? session_of('guest')
	  : ZkTest->new($node, 'zklock.session' => 'server')->connect;

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
	is($answer, '200|200|f|f', 'locks that are released while they are shown')
	  or diag("with $change");
	is($session->query('SELECT count(*) FROM zk_locks'), '0', '... are shown no more');
	$session->close;
	others_are_well('after that');
}


# 2. Attempts that are given up at once

# With a session for each backend they take nothing that others need.
SKIP:
{
	skip('there is nothing to share', 1) if !server_mode();

	my ($connections, $limit, $share) = (20, 3, 16);
	my $most = $connections * $limit;
	my $proxy = ZkProxy->new($zk->hosts);
	my $silent = new_node(
		'silent', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '60s',
		'zklock.max_locks' => 2 * $most);
	my $shop_session = sub {
		local $ENV{PGUSER} = 'shop';
		return ZkTest->new($silent);
	};
	my $listed = sub {
		return $silent->safe_psql('postgres', 'SELECT listed FROM zk_lock_stats');
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
	my $innocent = ZkTest->new($silent)->connect;
	my @shop = map { $shop_session->() } 1 .. $connections;
	my ($hostile, $committer) = @shop;
	is($committer->query(q(BEGIN; SELECT zk_lock_acquire('/shop/held', scope => 'transaction'); SAVEPOINT s)),
		't', 'a lock is held when ZooKeeper falls silent');
	wait_until('nothing else is there', sub { $listed->() == 1 });
	$proxy->hold('s2c', pings => 1);

	# So much as would take all the room, and as much again
	$_->start($give_up->(4)) for grep { $_ != $committer } @shop;
	unlike(join('', map { $_->result } @shop), qr/^t$|ERROR:  (?!08006)/m,
		'nobody gets a lock, nor is there any other error');
	cmp_ok($listed->(), '<=', $most, 'what was given up takes no more room than what can be held');
	like($innocent->query(q(SELECT zk_lock_acquire('/other', '100ms'))), qr/^ERROR:  08006/,
		'who has given up nothing is told that ZooKeeper does not answer');

	# Who has to wait
	my $next = q(SELECT zk_lock_acquire('/shop/next'));
	my $unfinished =
	  qr/^ERROR:  08006: ZooKeeper did not answer in time\nDETAIL:  Locks that were released or given up before are not removed yet: 3 of this session,/;

	# What was given up before the worker had begun it is finished at once.
	wait_until('as much is unfinished as it may hold',
		sub { $hostile->query($give_up->(1)) =~ $unfinished });
	like($hostile->query(q(SELECT zk_lock_acquire('/shop/next', '100ms'))), $unfinished,
		'who has given up too much waits, in his own time');
	like($hostile->query(q(SELECT zk_lock_acquire('/shop/next', '0'))), $unfinished,
		'... also who does not want to wait for the lock');
	like($hostile->query("SET lock_timeout = '100ms'; $next; RESET lock_timeout"), qr/^ERROR:  55P03/,
		'... at most as long as lock_timeout says');
	$hostile->start($next);
	wait_until('he waits',
		sub {
			$silent->safe_psql('postgres',
				q(SELECT count(*) FROM zk_locks WHERE path = '/shop/next')) == 1;
		});
	$silent->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $hostile->pid . ')');
	like($hostile->result, qr/^ERROR:  57014/, '... or until he is cancelled');
	like($committer->query($give_up->(1)), qr/^ERROR:  53400/, 'what is held counts, too');
	like($committer->query(q(ROLLBACK TO s; SELECT zk_lock_acquire_all('{/shop/1, /shop/2}', '1us'))),
		qr/^ERROR:  08006/, '... and what is given up in a transaction');
	is($committer->query('ROLLBACK TO s; COMMIT'), '', '... whose end waits for nothing');

	# Who is gone
	my $before = $listed->();
	for (1 .. $share)
	{
		my $session = pop @shop;

		$session->close;
		wait_until('its backend is gone',
			sub {
				$silent->safe_psql('postgres',
					q(SELECT count(*) FROM pg_stat_activity WHERE usename = 'shop')) < $connections;
			});
		$session = $shop_session->();
		like($session->query($give_up->(1)), qr/^ERROR:  08006/, 'who comes anew gets nothing');
		push @shop, $session;
	}
	cmp_ok($listed->(), '<=', $before + $share + $limit,
		'what was left behind is the role\'s, however often it connects anew');
	my $waiter = $shop[-1];
	$waiter->start($next);
	$hostile->start($next =~ s/next/last/r);
	$proxy->reset;
	is(join(' ', map { $_->result } $waiter, $hostile), 't t', 'when it is finished, they get their locks');
	is($innocent->query(q(SELECT zk_lock_acquire('/other'), zk_lock_release_all())), 't|1',
		'... and so do others');
	$_->close for @shop;
	wait_for_calm($silent, $zk);
	pass('nothing is left');
	$silent->stop;
}


# 3. Many attempts at a time

SKIP:
{
	skip('there are no turns', 1) if !server_mode();

	my $proxy = ZkProxy->new($zk->hosts);
	my $busy = new_node(
		'busy', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '60s');
	my $guest_session = sub {
		local $ENV{PGUSER} = 'guest';
		return ZkTest->new($busy);
	};
	my $thousand = sub {
		my ($path, $timeout) = @_;
		return qq(SELECT zk_lock_acquire_all(array_agg('$path/' || i), '$timeout') FROM generate_series(1, 1000) AS i);
	};

	$busy->safe_psql('postgres', 'CREATE ROLE guest LOGIN');
	my $innocent = ZkTest->new($busy)->connect;
	my $guest = $guest_session->();

	# Whose turn it is
	$proxy->mark;
	$proxy->hold('s2c', pings => 1);
	$guest->start($thousand->('/thousand', '60s'));
	wait_until('a thousand locks are asked for',
		sub {
			$busy->safe_psql('postgres',
				q(SELECT count(*) FROM zk_locks WHERE path LIKE '/thousand/%')) == 1000;
		});
	$proxy->wait_idle;
	$innocent->start(q(SELECT zk_lock_acquire('/other')));
	wait_until('another one is asked for',
		sub {
			$busy->safe_psql('postgres', q(SELECT count(*) FROM zk_locks WHERE path = '/other')) == 1;
		});
	$proxy->release;
	is($innocent->result, 't', 'one gets a lock while another asks for a thousand');
	is($guest->result, 't', '... who gets them');
	my %before;
	for my $frame (grep { $_->{dir} eq 'c2s' } $proxy->trace)
	{
		my ($path) = ($frame->{path} // '') =~ m{^(.*)/_c_} or next;

		last if $path eq '/other';
		$before{$path} = 1;
	}
	cmp_ok(scalar(keys %before), '<', 500, '... but not all of them before');
	$innocent->query('SELECT zk_lock_release_all()');
	$guest->query('SELECT zk_lock_release_all()');
	$proxy->reset;

	# Four that give up at once what would fill the room
	my @guests = ($guest, map { $guest_session->() } 2 .. 4);
	$guests[$_]->start(join(';', map { $thousand->("/given/$_", '1us') } 1 .. 1000)) for 0 .. $#guests;
	is(join(' ', map { $innocent->query(q(SELECT zk_lock_acquire('/other', '30s'), zk_lock_release_all())) } 1 .. 50),
		join(' ', ('t|1') x 50), 'others get their locks while thousands are given up');
	is(scalar(grep { $_->is_done } @guests), 0, '... all the time');
	$_->close for @guests;
	wait_for_calm($busy, $zk);
	$busy->stop;
}


# 4. Watches on long paths

# What a guest can take of something on the longest paths, until it is refused
sub take_all
{
	my ($guest, $expression) = @_;

	like(
		$guest->query("DO 'BEGIN FOR i IN 1..1100 LOOP PERFORM $expression; END LOOP; END'"),
		qr/^ERROR:  53200: too many ZooKeeper watches /,
		'there is an end to what can be watched');
	return;
}

{
	my $guest = session_of('guest', 'zklock.revocable' => 'on');
	my $kept = q(SELECT count(*), bool_or(lost), min(session_id), max(session_id) FROM zk_locks);

	$other->query(q(SELECT zk_lock_acquire('/kept')));
	take_all($guest, q(zk_lock_acquire(''/r'' || i || repeat(''x'', 1010))));
	take_all($guest, q(zk_semaphore_acquire(''/s'' || i || repeat(''x'', 1010), 1)));

	my $before = $other->query($kept);
	$zk->restart;
	is($other->query(q(SELECT zk_lock_acquire('/new', '20s'), zk_lock_release('/new'))),
		't|t', 'ZooKeeper restarts, and others go on');
	is($guest->query(q(SELECT zk_lock_acquire('/guest', '20s'), zk_lock_release('/guest'))),
		't|t', '... and so does the guest');
	is($other->query($kept), $before, '... in the sessions that there were');
	is($other->query(q(SELECT zk_lock_release('/kept'))), 't', '... with all locks');
	$guest->close;
	others_are_well('after so many watches');
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
		't|t|2', 'a lock and a semaphore above what a role is confined to');
	for my $path (@paths)
	{
		like($shop->query('SELECT ' . sprintf($_, $path)), $refused, sprintf($_, $path))
		  for q(zk_lock_acquire('%s')), q(zk_lock_acquire('%s', mode => 'simple')),
		  q(zk_lock_acquire_all('{%s}')), q(zk_semaphore_acquire('%s', 1));
	}
	is($shop->query("SELECT zk_lock_acquire('/shop/$long/a'),
			zk_semaphore_acquire('/shop/s', 1), zk_lock_acquire('/shop/locks/a')"),
		't|t|t', 'other paths can be locked');
	is($other->query(q(SELECT zk_lock_acquire('/shop', '20s'),
			zk_semaphore_acquire('/shop', 1, '20s'), zk_lock_release_all())),
		't|t|2', '... and are in nobody\'s way');
	$shop->close;
	others_are_well('paths');
}

# 6. Connections to ZooKeeper

# Of those that ZooKeeper takes from this machine the server needs one.
{
	my $narrow = ZkServer->new(config => { maxClientCnxns => 5 })->start;
	my $server = new_node('narrow', $narrow->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session' => 'server');
	$server->safe_psql('postgres', 'CREATE ROLE guest LOGIN');
	my ($first, @more) = map { session_on($server, 'guest') } 1 .. 8;
	my $denied = qr/^ERROR:  42501: permission denied to set parameter "zklock.session"/m;

	like($first->query($_), $denied, $_)
	  for q(SET zklock.session = 'backend'),
	  q(SELECT set_config('zklock.session', 'backend', false)),
	  q(ALTER ROLE guest SET zklock.session = 'backend');
	$_->query(q(SET zklock.session = 'backend')) for @more;
	is(join(' ', map { $_->query("SELECT zk_lock_acquire('/narrow/' || pg_backend_pid())") }
			$first, @more),
		't t t t t t t t', 'each backend of a role has a lock');
	is(scalar $narrow->sessions, 1, '... in one session');
	$_->close for $first, @more;
	$server->stop;
	$narrow->stop;
}
# Those that look at queues past the server's session are few at a time. They have
# a server of their own here, and ZooKeeper's answers are held back.
{
	my $proxy = ZkProxy->new($zk->hosts);
	my $server = new_node(
		'shared', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session' => 'server',
		'zklock.session_timeout' => '40s',
		'zklock.connect_timeout' => '60s');
	my $few = 8;

	$server->safe_psql('postgres', 'CREATE ROLE guest LOGIN');

	my $holder = ZkTest->new($server);
	my @guests = do
	{
		local $ENV{PGUSER} = 'guest';

		map { ZkTest->new($server) } 1 .. $few + 12;
	};
	my $waiting = sub {
		return $server->safe_psql('postgres',
			q(SELECT count(*) FROM pg_stat_activity
			  WHERE usename = 'guest' AND wait_event_type = 'Extension'));
	};

	my $connected = sub {
		return scalar(() = $zk->four_letter('cons') =~ /,sid=0x/g);
	};

	$holder->query(q(SELECT zk_lock_acquire('/held')));
	$proxy->wait_idle;
	my $before = $connected->();

	$proxy->hold('s2c', pings => 1);
	$_->start(q(SELECT count(*) FROM zk_lock_queue('/held'))) for @guests;
	wait_until('all of them wait', sub { $waiting->() == @guests });
	wait_until('some have connected', sub { $connected->() >= $before + $few });
	is($connected->(), $before + $few, 'few look at a queue at a time');

	# Some of those who connect are among the first ones.
	my $sessions = () = $zk->sessions;
	for my $guest (splice(@guests, 0, $few))
	{
		$server->safe_psql('postgres', "SELECT pg_terminate_backend(${\ $guest->pid})");
		$guest->close;
	}
	wait_until('others connect', sub { $sessions < (() = $zk->sessions) });
	wait_until('there is calm', sub { $connected->() <= $before + $few });
	is( $server->safe_psql('postgres',
			q(SELECT bool_and(pg_cancel_backend(pid)) FROM pg_stat_activity
			  WHERE usename = 'guest' AND state = 'active' AND pid <> pg_backend_pid())),
		't', 'the others are cancelled');
	like($_->result, qr/^ERROR:  57014/, 'a wait for that can be cancelled') for @guests;
	$_->start(q(SELECT count(*) FROM zk_lock_queue('/held'))) for @guests;
	$proxy->release;
	is($_->result, 1, 'in the end each is told who holds the lock') for @guests;
	ok( wait_until('they have closed', sub { $connected->() == $before }),
		'and no connection stays');

	my $rule = $proxy->rule(
		dir => 's2c', op => 'getChildren', action => 'hold', pings => 1);
	$guests[0]->start(q(SELECT count(*) FROM zk_lock_queue('/held')));
	wait_until('it looks', sub { $proxy->fired($rule) });
	$server->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $guests[0]->pid})");
	like($guests[0]->result, qr/^ERROR:  57014/, 'one is cancelled while it looks');
	$proxy->reset;
	ok( wait_until('it has closed', sub { $connected->() == $before }),
		'... and no connection stays');
	is($holder->query(q(SELECT zk_lock_release('/held'))), 't', '... nor is a lock lost');
	$_->close for $holder, @guests;
	$server->stop;
}


# 7. Locks that are fenced and released

{
	my $guest = session_of('guest');
	my $paths = join(', ', map { "/fenced/$_" } (0 .. 19));
	my $held = q(SELECT count(*), sum(session_holds), sum(transaction_holds) FROM zk_locks
		WHERE path LIKE '/fenced/%' AND granted);

	is($guest->query(qq(BEGIN;
			SELECT zk_lock_acquire_all('{$paths}');
			SELECT count(zk_lock_fence('/fenced/' || i)) FROM generate_series(0, 19) i;
			SELECT zk_lock_release('/fenced/0');
			SELECT zk_lock_release_all())),
		"t\n20\nt\n19", 'a role fences locks and releases them');
	is($other->query($held), '20|0|20', '... which its transaction holds');
	like($guest->query(q(PREPARE TRANSACTION 'fenced')), qr/^ERROR:  0A000:/,
		'... and cannot leave behind');

	$guest->query(qq(BEGIN;
		SELECT zk_lock_acquire_all('{$paths}');
		SELECT zk_lock_fence('/fenced/' || i) FROM generate_series(0, 19) i;
		SELECT zk_lock_release_all()));
	$other->start(q(BEGIN;
		SELECT zk_lock_guard('/fenced/7') > 0, zk_lock_fence('/fenced/7') > 0;
		COMMIT));
	my ($waits, $in_the_way) = ($other->pid, $guest->pid);
	wait_until('the next holder sees who is in the way',
		sub { $node->safe_psql('postgres', qq(SELECT blocking_pid FROM zk_lock_blockers
			WHERE pid = $waits AND path = '/fenced/7')) eq $in_the_way });
	$guest->query('COMMIT');
	is($other->result, 't|t', '... and is next');
	is($other->query($held), '0||', '... when all are given back');
	$guest->close;

	my $shop = session_of('shop');
	like($shop->query(q(BEGIN;
			SELECT zk_lock_acquire_all('{/shop/1, /shop/2, /shop/3}');
			SELECT count(zk_lock_fence('/shop/' || i)), zk_lock_release_all()
				FROM generate_series(1, 3) i;
			SELECT zk_lock_acquire('/shop/4'))),
		qr/^t\n3\|3\nERROR:  53400:/, '... and count until then');
	$shop->close;
	others_are_well('fenced and released');
}

done_testing();
