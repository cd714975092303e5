# zk_lock_queue() shows the holders and waiters of a lock: clients of two
# servers, of Curator and of kazoo; with any names, and any number of them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../interop";

use Interop;
use PostgreSQL::Test::Utils;
use Sys::Hostname;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

# After this many seconds of silence, all processes wait for a reply. The limit
# is generous, because a busy machine must not look silent.
use constant SETTLE => 0.5;

use constant NODE => ZkClient::EPHEMERAL | ZkClient::SEQUENCE;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# Without local hand-over, each backend has its own node in ZooKeeper's queue.
my %server = map {
	$_ => new_node(
		$_, $zk->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.handover_time' => 0)
} qw(a b);
my $local_observer = ZkTest->new($server{a}, 'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '60s');
my $observer = ZkTest->new($server{b}, 'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '60s');
my $user = $observer->query('SELECT session_user');

# Returns these columns of each row, separated by '|'.
sub rows
{
	my ($columns, $path) = @_;

	return split(/\n/,
		$observer->query("SELECT $columns FROM zk_lock_queue('$path')"));
}

# Returns the rows of zk_lock_paths().
sub paths
{
	my ($parent) = @_;

	return split(/\n/,
		$observer->query("SELECT path, kind, contenders FROM zk_lock_paths('$parent')"));
}

# Returns rows of zk_lock_blockers for a session.
sub blockers
{
	my ($session, $columns) = @_;
	my $pid = $session->pid;

	wait_until(
		"zk_locks shows that $pid waits",
		sub {
			$local_observer->query(
				"SELECT node FROM zk_locks WHERE pid = $pid AND NOT granted");
		});
	return split(/\n/,
		$local_observer->query("SELECT $columns FROM zk_lock_blockers WHERE pid = $pid"));
}

# Creates $n nodes.
sub create_many
{
	my ($client, $n, $node) = @_;

	for (my $done = 0; $done < $n; $done += 1000)
	{
		my @some = ($done + 1 .. ($n < $done + 1000 ? $n : $done + 1000));

		$client->send('create', $node->($_)) for @some;
		$client->recv for @some;
	}
	return;
}

# Returns the expected values of the columns that identify a session.
sub identity
{
	my ($session, $name, $application) = @_;

	return join('|',
		substr(hostname(), 0, 64),
		$server{$name}->port, $session->pid, 'postgres', $user, $application,
		'');
}

my $identity = 'host, port, pid, datname, usename, application_name, data';

#
# Twenty waiters of two servers, one with Curator and one with kazoo
#
my $curator = Peer->curator($zk, $server{a});
my $kazoo = Peer->kazoo($zk, $server{a});
my (@line, @expected);

for my $i (0 .. 20)
{
	my $place = ($i + 1) . ($i == 0 ? '|holder' : '|waiter') . '|exclusive|';

	# Curator reports its address if the name of its host can be resolved.
	if ($i == 7 || $i == 13)
	{
		my $actor = $i == 7 ? $curator->actor : $kazoo->actor;

		push(@line, $actor);
		$actor->start(
			$i == 7 ? 'acquire mutex /crowd' : 'acquire lock /crowd');
		push(@expected,
			qr/^\Q${place}f||||||\E@{[ $i == 7 ? '\|[0-9.:a-f]*' : '\|actor1' ]}$/);
	}
	else
	{
		my $name = $i % 2 ? 'a' : 'b';
		my $session = ZkTest->new($server{$name}, application_name => "no. $i");

		push(@line, $session);
		$session->start(q(SELECT zk_lock_acquire('/crowd')));
		push(@expected, qr/^\Q${place}f|@{[ identity($session, $name, "no. $i") ]}\E$/);
	}
	wait_for_nodes($zk, '/crowd', $i + 1);
}
my @got = rows("position, state, mode, own, $identity", '/crowd');
is(scalar(@got), 21, 'a holder and twenty waiters are shown');
like($got[$_], $expected[$_], '... row ' . ($_ + 1)) for 0 .. 20;
is( $observer->query(
		q(SELECT count(*) FROM (
			SELECT sequence > lag(sequence) OVER w AND since >= lag(since) OVER w
			AND session_id <> lag(session_id) OVER w AS ok
			FROM zk_lock_queue('/crowd') WINDOW w AS (ORDER BY position)) AS q
		  WHERE ok)),
	20,
	'... ordered by sequence and time, each in its own session');
is( join(' ', rows('node', '/crowd')),
	join(
		' ', sort { substr($a, -10) <=> substr($b, -10) } $zk->children('/crowd')),
	'... with the names of their nodes');

# An acquire that times out reports the holder.
my ($first) = rows('node', '/crowd');
my $holder = $line[0]->pid;
like(
	$observer->query(q(SELECT zk_lock_guard('/crowd', '0'))),
	qr/^DETAIL:  The lock is held by host=\S+ port=\d+ pid=$holder .* \(node "\Q$first\E"\); 20 others wait for it\.$/m,
	'error names the holder and the number of waiters');

# Position 20 belongs to server a.
is_deeply(
	[
		blockers(
			$line[19],
			join(', ', 'blocking_state',
				map { "blocking_$_" } split(/, /, $identity)))
	],
	[ map { s/^\d+\|(\w+)\|exclusive\|f/$1/r } @got[ 0 .. 18 ] ],
	'zk_lock_blockers shows all nodes ahead of a backend');

$_->close for grep { $_->isa('ZkTest') } @line;
wait_until('the peer has its lock', sub { $line[7]->is_done });
$line[7]->query('release mutex /crowd');
$line[13]->result;
$line[13]->query('release lock /crowd');
wait_until_gone($zk, '/crowd');

#
# Readers share a lock, writers do not; a semaphore has two queues.
#
my @sessions = map { ZkTest->new($server{a}) } 1 .. 4;

for my $i (0 .. 3)
{
	my $mode = $i == 2 ? 'write' : 'shared';

	$sessions[$i]->start("SELECT zk_lock_acquire('/rw', mode => '$mode')");
	wait_for_nodes($zk, '/rw', $i + 1);
}
is_deeply(
	[ rows('position, state, mode, pid', '/rw') ],
	[
		map { "$_->[0]|" . $sessions[ $_->[0] - 1 ]->pid }
		  [ '1|holder|shared' ], [ '2|holder|shared' ],
		[ '3|waiter|write' ], ['4|waiter|shared']
	],
	'readers hold a lock together, but not behind a writer');
like(
	$observer->query(q(SELECT zk_lock_guard('/rw', '0'))),
	qr/ \(node ".*"\), and shared by 1 more; 2 others wait for it\.$/m,
	'... and the error counts them');
is_deeply(
	[ map { join(', ', blockers($_, 'blocking_pid')) } @sessions[ 2, 3 ] ],
	[ join(', ', map { $_->pid } @sessions[ 0, 1 ]), $sessions[2]->pid ],
	'... readers block a writer, and the writer blocks readers behind it');
$proxy->wait_idle;
$proxy->mark;
blockers($sessions[3], 'blocking_pid');
is(scalar(grep { "$_->{dir} $_->{op}" eq 'c2s getChildren' } $proxy->trace),
	3, '... and only the queue of the requested row is read');
$_->close for @sessions;
wait_until_gone($zk, '/rw');

#
# The cost of zk_lock_blockers depends neither on the waiters nor on the paths below.
#
@sessions = map { ZkTest->new($server{a}) } 0 .. 3;
for my $i (0 .. 3)
{
	$sessions[$i]->start(q(SELECT zk_lock_acquire('/shop/d')));
	wait_for_nodes($zk, '/shop/d', $i + 1);
}
blockers($_, 'blocking_pid') for @sessions[ 1 .. 3 ];
my $maker = ZkClient->new($zk->hosts);
create_many($maker, 100, sub { "/shop/d/$_[0]", '' });
$proxy->wait_idle;
$proxy->mark;
is($local_observer->query('SELECT count(*) FROM zk_lock_blockers'), 6, 'three waiters have six blockers');
my %requests;
$requests{ $_->{op} }++ for grep { $_->{dir} eq 'c2s' } $proxy->trace;
is($requests{getChildren}, 3, '... whose queue is listed once');
is($requests{getData}, 5, '... and only its nodes are read, and the path');
for my $rows ('', "WHERE pid = ${\ $sessions[2]->pid}")
{
	my $plan = $local_observer->query(
		"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) SELECT * FROM zk_lock_blockers $rows");

	is_deeply([ $plan =~ /Function Scan on zk_lock_status.* loops=(\d+)/g ], [ (1) x 4 ],
		"... and zk_locks is not read again for each of them $rows");
}
$maker->delete("/shop/d/$_") for 1 .. 100;
$maker->close;
$_->close for @sessions;
wait_until_gone($zk, '/shop/d');

@sessions = map { ZkTest->new($server{a}) } 1 .. 4;
for my $i (0 .. 3)
{
	$sessions[$i]->start(q(SELECT zk_semaphore_acquire('/semaphore', 2)));
	$sessions[$i]->result if $i < 2;
	wait_until('the node is there', sub { nodes($zk, '/semaphore') == [ 1, 2, 4, 5 ]->[$i] });
}
my @pids = map { $_->pid } @sessions;
is_deeply(
	[ rows('position, state, mode, pid', '/semaphore') ],
	[
		"1|holder|semaphore|$pids[0]", "2|holder|semaphore|$pids[1]",
		"3|waiter|semaphore|$pids[2]", "4|holder|mutex|$pids[2]",
		"5|waiter|mutex|$pids[3]"
	],
	'waiter for a lease holds the mutex, and others wait for the mutex');
is_deeply(
	[ map { join(', ', blockers($_, 'blocking_pid')) } @sessions[ 2, 3 ] ],
	[ "$pids[0], $pids[1]", $pids[2] ],
	'... and zk_lock_blockers shows both');
is_deeply([ paths('/semaphore') ],
	['/semaphore|semaphore|5'], '... and zk_lock_paths() shows one path');
$_->close for @sessions;
wait_until_gone($zk, '/semaphore');

@sessions = map { ZkTest->new($server{a}) } 1 .. 2;
$sessions[0]->query(q(SELECT zk_lock_acquire('/simple', mode => 'simple')));
$sessions[1]->start(q(SELECT zk_lock_acquire('/simple', mode => 'simple')));
is( join(' ', blockers($sessions[1], 'blocking_mode, blocking_pid')),
	'simple|' . $sessions[0]->pid,
	'a simple lock has only a holder');
is( $local_observer->query(
		q(CREATE ROLE nobody; SET ROLE nobody; SELECT count(*) FROM zk_lock_blockers)),
	'0',
	'... role without privileges does not see it');
$local_observer->query('RESET ROLE');
is($local_observer->query('SELECT count(*) FROM zk_lock_blockers'),
	'1', '... superuser sees it');
$_->close for @sessions;

#
# Data and names of nodes
#
my $other = ZkClient->new($zk->hosts);
my $utf8 = "\342\202\254 m\303\274ller";
my %shown = (
	q(host=h port=5432 pid=7 database='a b' user='o\'brien\\\\' application='' id=_c_x) =>
	  "h|5432|7|a b|o'brien\\||",
	'host=h port=1 pid=2 database=d user=u application=a' => 'h|1|2|d|u|a|',
	"host=h port=1 pid=2 database='\377' user='a\nb' application='$utf8'" =>
	  "h|1|2|?|a?b|$utf8|",
	'host=h port=1' => 'h|1|||||',
	map({ $_ => 'h|1|||||' }
		'host=h port=1 revocable=t',
		q(host=h port=1 later='a b' revocable=t)),
	map({ $_ => "||||||$_" }
		'host=h port=1 revocable',
		'host=h port=1 pid=2 database=d user=u',
		'host=h port=x pid=2 database=d user=u application=a',
		'host=h port= pid=2 database=d user=u application=a',
		'host=h port=-1 pid=2 database=d user=u application=a',
		'host=h port=1 pid=99999999999 database=d user=u application=a',
		'host=h port=1 pid=2 database=d user=u application=',
		q(host=h port=1 pid=2 database=d user=u application='),
		q(host=h port=1 pid=2 database=d user=u application='\\),
		q(host=h port=1 pid=2 database=d user=u application='a'b),
		'pid=2 host=h port=1 database=d user=u application=a',
		' host=h port=1 pid=2 database=d user=u application=a',
		'192.168.0.1'),
	"a\nb\t\33[2J" => '||||||a?b??[2J',
	"\377\376\0\1" => '||||||??',
	'' => '||||||');

$other->create('/a lock', '');
for my $data (sort keys %shown)
{
	my $name = $other->create('/a lock/lock-', $data, NODE);
	is(join("\n", rows($identity, '/a lock')),
		$shown{$data}, 'data of a node is parsed: ' . ($data =~ s/[^ -~]/?/gr || 'nothing'));
	$other->delete($name);
}

# Names of other clients' nodes, and of nodes that are no contenders
my @names = qw(a__lock__0000000000 __rlock__0000000005 x__rlock__0000000003 lock--000000002
  _c_x-__READ__0000000007 _c_x-__WRIT__0000000007 __READ__2147483647);

# ... of nodes that ZooKeeper cannot have numbered, and of others
my @unnumbered = (qw(__READ__2147483648 lock--5 lock-1), "${utf8}lock-123");
my @strangers = ('host-W-0000000009', 'stranger', $utf8);
$other->create("/a lock/$_", '', ZkClient::EPHEMERAL) for @names, @unnumbered, @strangers;
$other->create('/a lock/stays', '');
$other->create('/a lock/lock-0000000009', '');
$other->create('/a lock/lock-12', '');
is_deeply(
	[ rows('position, state, mode, sequence, node, session_id IS NULL', '/a lock') ],
	[
		'1|holder|exclusive|-2|lock--000000002|f',
		'2|waiter|exclusive|0|a__lock__0000000000|f',
		'3|waiter|shared|3|x__rlock__0000000003|f',
		'4|waiter|shared|5|__rlock__0000000005|f',
		'5|waiter|write|7|_c_x-__WRIT__0000000007|f',
		'6|waiter|shared|7|_c_x-__READ__0000000007|f',
		'7|waiter|exclusive|9|lock-0000000009|t',
		'8|waiter|shared|2147483647|__READ__2147483647|f',
		map { "||||$_|f" } @unnumbered
	],
	'nodes are classified by their names, and others are not shown');

$server{b}->safe_psql('postgres',
	q(CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0)
);
$server{b}->safe_psql('latin', 'CREATE EXTENSION zklock');
my $latin = ZkTest->new($server{b});
$latin->query("\\connect latin\nSET client_encoding = 'UTF8'");
is($latin->query(q(SELECT node FROM zk_lock_queue('/a lock') OFFSET 11)),
	'??? m??llerlock-123', '... and shown as far as the encoding allows');

# Paths that contain such nodes
$other->create('/a lock/stays/below', '');
$other->create("/a lock/stays/$utf8", '');
$other->create("/a lock/stays/$utf8/lock-", '', NODE);
$other->create('/a lock/stays/below/' . 'x' x 1023, '');
$other->create('/a lock/stays/below/' . 'x' x 1023 . '/lock-', '', NODE);
is_deeply(
	[ paths('/a lock') ],
	[
		'/a lock|queue|8',
		map({ "/a lock/$_|" . (m{^stays/} ? 'queue|1' : 'simple|1') }
			sort(@unnumbered, @strangers, "stays/$utf8"))
	],
	'paths are classified by the nodes below them');
is($latin->query(q(SELECT path FROM zk_lock_paths('/a lock/stays'))),
	'/a lock/stays/??? m??ller', '... and shown as far as the encoding allows');
$latin->close;

# Only nodes that ZooKeeper can have numbered exclude.
$other->create('/numbers', '');
$other->create("/numbers/$_", '', ZkClient::EPHEMERAL) for @unnumbered;
is($observer->query(q(SELECT zk_lock_acquire('/numbers', '0'))),
	't', 'nodes that ZooKeeper cannot have numbered hold no lock');
is($observer->query(q(SELECT zk_lock_release('/numbers'), zk_lock_revoke('/numbers'))),
	't|0', '... and none is revoked');
$other->create('/numbers/lock--000000001', '', ZkClient::EPHEMERAL);
is($observer->query(q(SELECT zk_lock_acquire('/numbers', '0'))),
	'f', '... but one with a negative number is in the queue');
$other->delete('/numbers/lock--000000001');
$other->delete("/numbers/$_") for @unnumbered;

# A node that may not be read
my $secret = ZkTest->new(
	$server{a},
	'zklock.auth' => 'digest:a:b',
	'zklock.acl' => 'auth::cdrwa');
$other->create('/secret', '');
$secret->query(q(SELECT zk_lock_acquire('/secret')));
is_deeply(
	[
		rows("position, state, mode, sequence, session_id, since, own, $identity",
			'/secret')
	],
	['1|holder|exclusive|0||||||||||'],
	'only the name of an unreadable node is shown');
unlike($observer->query(q(SELECT zk_lock_guard('/secret', '0'))),
	qr/^DETAIL/m, '... and the error has no detail about its holder');
$secret->close;
wait_until_gone($zk, '/secret');

# A node of the observer's own session
$observer->query(q(SELECT zk_lock_acquire('/secret')));
is_deeply([ rows('own', '/secret') ], ['t'], 'node of the own session is marked');
$observer->query('SELECT zk_lock_release_all()');

#
# Connection failures
#
$proxy->wait_idle;
for my $op (qw(getData getChildren))
{
	for my $action (qw(drop cut))
	{
		my $rule =
		  $proxy->rule(dir => 's2c', op => $op, nth => 2, action => $action);

		is(scalar(rows('node', '/a lock')),
			12, "queue is shown after a connection was lost ($action) at $op");
		ok($proxy->fired($rule), '... and the connection was lost');
		$proxy->reset;
	}
}
$proxy->hold('s2c', pings => 1);
$observer->start(q(SELECT * FROM zk_lock_queue('/a lock')));
wait_until(
	'the statement waits',
	sub {
		$server{b}->safe_psql('postgres',
			'SELECT wait_event_type FROM pg_stat_activity WHERE pid = '
			  . $observer->pid) eq 'Extension';
	});
$server{b}->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $observer->pid . ')');
like($observer->result, qr/^ERROR:  57014/, 'statement can be cancelled while it waits');
$observer->query(q(SET zklock.connect_timeout = '500ms'));
like($observer->query(q(SELECT * FROM zk_lock_queue('/a lock'))),
	qr/^ERROR:  08006: ZooKeeper did not answer in time$/m,
	'... and ends after connect_timeout');
$observer->query('RESET zklock.connect_timeout');
$proxy->reset;
is(scalar(rows('node', '/a lock')), 12, '... and works again after that');
$other->close;

#
# A thousand nodes take as many flights as ten.
#
my %flights;

for my $n (10, 1000)
{
	my $crowd = ZkClient->new($zk->hosts);
	my $seconds = 0;
	my $seen;

	$crowd->create("/queue of $n", '');
	create_many(
		$crowd, $n,
		sub {
			"/queue of $n/_c_00000000-0000-4000-8000-000000000000-lock-",
			  "host=h port=1 pid=$_[0] database=d user=u application='a b'",
			  NODE;
		});

	my $sql =
	  "SELECT count(*), sum(pid), min(state), max(position) FROM zk_lock_queue('/queue of $n')";
	$flights{$n} =
	  $proxy->flights(sub { $seen = $observer->query($sql) }, SETTLE);
	is($seen, "$n|" . $n * ($n + 1) / 2 . "|holder|$n",
		"a queue of $n is shown");
	$seconds = seconds_of(sub { $observer->query($sql) });
	diag(sprintf('zk_lock_queue() showed %d nodes in %.3f seconds', $n, $seconds));
	cmp_ok($seconds, '<', 5, '... within five seconds') if $n == 1000;
	$crowd->close;
}
is($flights{10}, 2, 'ten nodes take two flights');
is($flights{1000}, 2, '... and so do a thousand');

#
# zk_lock_paths() takes one flight for each level of the tree, and one for the
# nodes without children. The number of nodes is limited.
#
my $tree = ZkClient->new($zk->hosts);
my $seen;

$tree->create($_, '') for qw(/tree /tree/1 /tree/1/2 /tree/1/2/3);
create_many($tree, 3000, sub { "/tree/1/2/$_[0]-", '' });
$tree->create('/tree/1/2/3/lock-', '', NODE);
is($proxy->flights(sub { $seen = join(' ', paths('/tree')) }, SETTLE),
	6, 'a tree of four levels with three thousand leaves takes six flights');
is($seen, '/tree/1/2/3|queue|1', '... and its only lock is found');

# The limit is the same in all modes, and it takes long to reach.
if (!server_mode())
{
	create_many($tree, 47_000, sub { "/tree/1/$_[0]-", '' });
	is(join(' ', paths('/tree')), $seen, 'the lock is also found among 50,000 paths');

	# Of a queue, the first nodes are shown.
	$tree->create('/tree/1/lock-', '', NODE);
	create_many($tree, 50_000, sub { sprintf('/tree/1/lock-%010d', 100_000 + $_[0]), '' });
	$tree->create('/tree/1/lock-123', '', ZkClient::EPHEMERAL);
	my $shown = $observer->query(q(SELECT state, node FROM zk_lock_queue('/tree/1') LIMIT 1));
	like(
		$shown,
		qr{^WARNING:  01000: .* queue of "/tree/1"\nDETAIL:  Only the first 50000 of 50002 are read},
		'of a queue with too many nodes, not all are read');
	like($shown, qr/^holder\|lock-\d+\z/m, '... and the first ones are shown');
}
$tree->close;

done_testing();
