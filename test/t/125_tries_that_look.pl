# A try of a lock whose last try was refused first looks whether the lock is free. So a
# refused try writes nothing, and no other client finds its node.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

# With this timeout of sessions, there are no beats among the writes that are counted.
use constant TIMEOUT => '1h';
my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# Backends know of each other's refusals only with the library preloaded.
my $node = new_node(
	'main', $proxy->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_timeout' => TIMEOUT);
my $session = ZkTest->new($node)->connect;
my $other = ZkTest->new($node)->connect;

# Another client, which is not of this server
my $client = ZkClient->new($zk->hosts);

my @enter = qw(create2 getChildren);
my @look = qw(sync getChildren);

# The number of transactions that ZooKeeper has carried out, failed ones included
sub zxid
{
	no warnings 'portable';
	return $zk->four_letter('srvr') =~ /^Zxid: 0x([0-9a-f]+)$/m ? hex($1) : die;
}

# Checks the result of a statement, the quorum writes by ZooKeeper's own counter, and the
# requests, if they are given.
sub costs
{
	my ($who, $sql, $expected, $writes, $requests, $what) = @_;

	$proxy->wait_idle;
	$proxy->mark;
	my $before = zxid();
	like($who->query($sql), $expected, $what);
	$proxy->wait_idle;
	is(zxid() - $before, $writes, "... with $writes quorum writes");
	is_deeply([ map { $_->{op} } $proxy->requests ],
		$requests, "... and requests @$requests")
	  if $requests;
	return;
}

# Returns a try of a lock in a mode, as SQL.
sub try_lock
{
	my ($path, $mode) = @_;

	return "SELECT zk_lock_acquire('$path', '0', '$mode')";
}

my $t = qr/^t$/;
my $f = qr/^f$/;

# Each mode, beside a contender of each kind that excludes it
my %behind = (
	exclusive => [qw(lock- __READ__ __WRIT__ __lock__ __rlock__)],
	write => [qw(lock- __READ__ __WRIT__ __lock__ __rlock__)],
	shared => [qw(lock- __WRIT__ __lock__)]);
for my $mode (sort keys %behind)
{
	my $path = "/looks/$mode";

	$zk->make_path($path);
	for my $marker (@{ $behind{$mode} })
	{
		my $ahead = $client->create("$path/_c_1-$marker", '', ZkClient::SEQUENCE);

		costs($session, try_lock($path, $mode),
			$f, 2, undef, "a $mode try behind a $marker node")
		  if $marker eq 'lock-';
		costs($session, try_lock($path, $mode),
			$f, 0, \@look, "the next $mode try behind a $marker node");
		costs($other, try_lock($path, $mode), $f, 0, \@look, '... and one of another session');
		$client->delete($ahead);
	}
	costs($session, try_lock($path, $mode), $t, 1, [ @look, @enter ],
		"a $mode try after refused ones, of a lock that is free");
	$session->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, $path);
	costs($session, try_lock($path, $mode),
		$t, 1, \@enter, "a $mode try after a granted one");
	$session->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, $path);
}
is( $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t(\d+)$/m ? $1 : '',
	0, 'no node is left');
is( $node->safe_psql('postgres', 'SELECT timeouts FROM zk_lock_stats WHERE immediate > 0'),
	3 + 2 * (5 + 5 + 3), 'each refusal is counted as a timeout');

# Readers do not stand in each other's way, and a reader's try tells nothing of a writer's.
$zk->make_path('/looks/reader');
my $reader = $client->create('/looks/reader/_c_1-__READ__', '', ZkClient::SEQUENCE);
is($session->query(try_lock('/looks/reader', 'exclusive')), 'f', 'a reader refuses a writer');
costs($other, try_lock('/looks/reader', 'shared'),
	$t, 1, \@enter, 'a reader beside it is granted');
costs($session, try_lock('/looks/reader', 'exclusive'),
	$f, 0, \@look, '... and the writer is refused without a write');
$other->query('SELECT zk_lock_release_all()');
wait_for_nodes($zk, '/looks/reader', 1);

# Who waits does not look; who is granted the lock then has others try without a look.
$session->start(q(SELECT zk_lock_acquire('/looks/reader', '1min')));
$session->wait_for_lock;
$client->delete($reader);
is($session->result, 't', 'who waits is granted the lock');
is($session->query('SELECT zk_lock_release_all()'), '1', '... and releases it');
wait_for_queue($zk, '/looks/reader');
costs($other, try_lock('/looks/reader', 'exclusive'),
	$t, 1, \@enter, 'a try after the grant of a wait');
$other->query('SELECT zk_lock_release_all()');

# An error names the holder.
$zk->make_path('/looks/named');
my $named = $client->create('/looks/named/_c_1-lock-',
	'host=elsewhere port=1 pid=77 database=d user=u application=a', ZkClient::SEQUENCE);
$session->query(try_lock('/looks/named', 'exclusive'));
like(
	$session->query(q(BEGIN; SELECT zk_lock_guard('/looks/named', '0'))),
	qr/^ERROR:  55P03:.*^DETAIL:.*elsewhere/ms,
	'zk_lock_guard() names the holder that a look has found');
$session->query('ROLLBACK');
$client->delete($named);

# The path may be gone with the container.
$client->delete('/looks/named');
costs($session, try_lock('/looks/named', 'exclusive'),
	$t, 3,
	[ @look, @enter, 'createContainer', @enter ],
	'a look at a path that is gone');
$session->query('SELECT zk_lock_release_all()');

# A new key below a known parent costs two writes more than a known one: a create that
# finds no parent, and that of the parent.
my $use = sub {
	my ($path) = @_;

	return "SELECT zk_lock_acquire('$path') AND zk_lock_release('$path')";
};

costs($session, $use->('/looks/key/1'),
	$t, 8,
	[ @enter, 'createContainer', @enter, ('createContainer') x 3, @enter, 'delete' ],
	'a new key below a new parent');
costs($session, $use->('/looks/key/2'),
	$t, 4,
	[ @enter, 'createContainer', @enter, 'delete' ],
	'a new key below a known parent');
costs($session, $use->('/looks/key/2'), $t, 2, [ @enter, 'delete' ], 'a known key');

# A lost request or reply: the look is repeated, and still makes no node.
$zk->make_path('/looks/lost');
my $lost = $client->create('/looks/lost/_c_1-lock-', '', ZkClient::SEQUENCE);
$session->query(try_lock('/looks/lost', 'exclusive'));
for my $case ([ c2s => 'sync' ], [ c2s => 'getChildren' ], [ s2c => 'sync' ], [ s2c => 'getChildren' ])
{
	my ($dir, $op) = @$case;

	$proxy->wait_idle;
	$proxy->mark;
	my $rule = $proxy->rule(dir => $dir, op => $op, action => 'drop');
	is($session->query(try_lock('/looks/lost', 'exclusive')),
		'f', "a try whose $op is lost, $dir, is refused");
	ok($proxy->fired($rule), '... and it was lost');
	is((grep { $_->{op} =~ /^create/ } $proxy->requests), 0, '... and no node is created');
}
$client->delete($lost);

# ZooKeeper has a second for each of its two answers.
my $slow = $client->create('/looks/slow', '', 0);
$slow = $client->create('/looks/slow/_c_1-lock-', '', ZkClient::SEQUENCE);
is($session->query(try_lock('/looks/slow', 'exclusive')), 'f', 'a try is refused');
$client->delete($slow);
$proxy->wait_idle;
$proxy->rule(dir => 's2c', op => 'getChildren', nth => $_, action => 'delay', ms => 700) for 1, 2;
is($session->query(try_lock('/looks/slow', 'exclusive')), 't', '... and the next one is granted slowly');
$session->query('SELECT zk_lock_release_all()');

# A node of this server's session counts, too, whatever the gate knows.
is($other->query(q(SELECT zk_lock_acquire('/looks/own', '10s', 'write'))),
	't', 'another backend holds a lock in mode write');
$session->query(try_lock('/looks/own', 'exclusive'));
costs($session, try_lock('/looks/own', 'exclusive'),
	$f, 0, \@look, 'a try in mode exclusive is refused without a write');
is($other->query('SELECT zk_lock_release_all()'), '1', '... until it is released');
wait_for_queue($zk, '/looks/own');
is($session->query(try_lock('/looks/own', 'exclusive')), 't', '... and is granted then');
$session->query('SELECT zk_lock_release_all()');

# A gate that has a node decides without a request.
if (server_mode() eq 'gate')
{
	my $outside = $client->create('/looks/gate', '', 0);

	$outside = $client->create('/looks/gate/_c_1-lock-', '', ZkClient::SEQUENCE);
	is($session->query(try_lock('/looks/gate', 'exclusive')), 'f', 'a try is refused');
	$client->delete($outside);
	costs($other, try_lock('/looks/gate', 'exclusive'),
		$t, 1, [ @look, @enter ], '... and one of another backend is granted');
	costs($session, try_lock('/looks/gate', 'exclusive'),
		$f, 0, [], '... beside which the next one is refused at the gate')
	  for 1 .. 2;
	$other->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, '/looks/gate');
}

# Simple locks: a read of the node
$zk->make_path('/looks/roles');
$client->create('/looks/roles/leader', '', ZkClient::EPHEMERAL);
is($session->query(try_lock('/looks/roles/leader', 'simple')),
	'f', 'a simple lock of another client is refused');
costs($session, try_lock('/looks/roles/leader', 'simple'),
	$f, 0, [qw(sync getData)], '... and the next try reads it');
$client->delete('/looks/roles/leader');
costs($session, try_lock('/looks/roles/leader', 'simple'),
	$t, 1, [qw(sync getData create2)], '... and takes it once it is free');
$session->query('SELECT zk_lock_release_all()');
$zk->make_path('/looks/roles/node');
is($session->query(try_lock('/looks/roles/node', 'simple')) =~ /^ERROR:  (\w+)/ ? $1 : '',
	'55000', 'a persistent node is an error');

# Semaphores: the number of leases, and a list of them, without the mutex
for my $case (
	[ '/looks/permits', 'zk_semaphore_acquire(%s, 2, %s)' ],
	[ '/looks/counted', "zk_semaphore_acquire_counted(%s, '/looks/count', %s)" ])
{
	my ($path, $call) = @$case;
	my $try = sprintf("SELECT $call", "'$path'", "'0'");
	my $lease;

	$session->query(q(SELECT zk_shared_count_set('/looks/count', 2)));
	$session->query(sprintf("SELECT $call", "'$path'", "'10s'") . ', zk_lock_release_all()');
	wait_for_queue($zk, "$path/$_") for qw(locks leases);
	$lease = $client->create("$path/leases/_c_$_-lease-", '', ZkClient::SEQUENCE) for 1 .. 2;
	is($session->query($try), 'f', "$path: a try of a full semaphore is refused");
	costs($session, $try, $f, 0, [qw(sync getData getChildren)],
		'... and the next one reads the number and the leases');
	$client->delete($lease);
	like($session->query($try), $t, '... and takes one once there is one');
	is($other->query($try), 'f', '... which refuses others');
	$session->query('SELECT zk_lock_release_all()');
}

# Many locks: those whose last tries were refused are looked at in one flight, before any
# node is created.
my $all = q(SELECT zk_lock_acquire_all('{/looks/all/1, /looks/all/2, /looks/all/3}', '0'));
$session->query(q(SELECT zk_lock_acquire_all('{/looks/all/1, /looks/all/2, /looks/all/3}')));
is($session->query('SELECT zk_lock_release_all()'), '3', 'three locks are taken together');
my @held = map { $client->create("/looks/all/$_/_c_1-lock-", '', ZkClient::SEQUENCE) } 2 .. 3;
is($session->query($all), 'f', 'two of three are not free');
costs($session, $all, $f, 0, [ (@look) x 2 ], '... and the next try looks at both');
is($proxy->flights(sub { $session->query($all) }, 0.5), 1, '... in one flight');
$client->delete($held[0]);
costs($session, $all, $f, 0, [ (@look) x 2 ], '... also when only one is not free');
$client->delete($held[1]);
like($session->query($all), $t, '... and takes all when they are free');
$session->query('SELECT zk_lock_release_all()');
wait_for_queue($zk, "/looks/all/$_") for 1 .. 3;
costs($session, $all, $t, 3, [ (@enter) x 3 ], 'a try of many after a granted one');
$session->query('SELECT zk_lock_release_all()');
wait_for_queue($zk, "/looks/all/$_") for 1 .. 3;

# A try that has the first of its locks waits a moment for the next one, whose contender may
# be another try.
$held[0] = $client->create('/looks/all/2/_c_1-lock-', '', ZkClient::SEQUENCE);
$session->query(q(SET zklock.try_timeout = '60s'; SET zklock.connect_timeout = '60s'));
my $begin = time();
is($session->query($all), 'f', 'a try of many, of which one is not free');
cmp_ok(time() - $begin, '<', 30, '... ends long before its time');
$session->query('RESET zklock.try_timeout; RESET zklock.connect_timeout');
wait_for_queue($zk, "/looks/all/$_") for 1, 3;
costs($session, $all, $f, 0, \@look, '... and the next try looks at that one');
$client->delete($held[0]);

# It needs no more for that than for a refusal: the holder's node cannot be read.
my $strict = new_node(
	'strict', $zk->hosts, OWN_SESSION,
	'zklock.acl' => 'world:anyone:cdwa');
my $unreadable = ZkTest->new($strict);
$zk->make_path('/looks/unreadable');
is($unreadable->query(q(SELECT zk_lock_acquire('/looks/unreadable'))),
	't', 'a lock whose node must not be read');
is( $session->query(q(SELECT zk_lock_acquire_all('{/looks/first, /looks/unreadable}', '0'))),
	'f', '... refuses a try of many')
  for 1 .. 2;
$unreadable->close;
$strict->stop;

# That moment is no wait of a deadlock, for the try itself or for others.
my ($tries, $waits) = map { ZkTest->new($node, deadlock_timeout => '10ms')->connect } 1 .. 2;
$tries->query(q(SELECT zk_lock_acquire('/looks/deadlock/mine')));
$waits->query(q(SELECT zk_lock_acquire('/looks/deadlock/2')));
$waits->start(q(SELECT zk_lock_acquire('/looks/deadlock/mine')));
$waits->wait_for_lock;
is( $tries->query(q(SELECT zk_lock_acquire_all('{/looks/deadlock/1, /looks/deadlock/2}', '0'))),
	'f', 'a try of many, of which one is held by a session that waits for this one');
is($tries->query('SELECT zk_lock_release_all()'), '1', '... which keeps its lock');
is($waits->result, 't', '... and the other session is not the victim of a deadlock');
$_->close for $tries, $waits;

# In the server's session, the looks of one backend are not all ahead of others' requests.
if (server_mode())
{
	my $n = 400;
	my $paths = "ARRAY(SELECT '/looks/limit/' || i FROM generate_series(1, $n) i)";

	# The client's own requests keep its session, however long this takes.
	$zk->make_path('/looks/limit');
	$client->create("/looks/limit/$_", '') for 1 .. $n;
	my @ahead =
	  map { $client->create("/looks/limit/$_/_c_1-lock-", '', ZkClient::SEQUENCE) } 1 .. $n;
	my $many = "SELECT zk_lock_acquire_all($paths, '0')";
	is($session->query($many), 'f', "$n locks are not free") for 1 .. 2;
	$proxy->wait_idle;
	$proxy->mark;
	$proxy->rule(dir => 's2c', op => 'sync', action => 'hold', pings => 1);
	$session->start($many);
	wait_until('the looks are sent', sub { (grep { $_->{op} eq 'sync' } $proxy->requests) >= 256 });
	$other->start("SELECT zk_lock_acquire('/looks/limit')");
	$other->wait_for_event('Extension');
	$proxy->release;
	is($other->result, 't', '... and another lock is taken meanwhile');
	my @ops = map { $_->{op} } $proxy->requests;
	my ($create) = grep { $ops[$_] eq 'create2' } 0 .. $#ops;
	cmp_ok((grep { $_ eq 'sync' } @ops[ 0 .. $create - 1 ]), '<', 300, '... behind few of them');
	is($session->result, 'f', '... and the try is refused');
	$other->query('SELECT zk_lock_release_all()');
	$client->delete($_) for @ahead;
}

# Several tries of the same locks at once: one gets all.  A try waits 50 ms for those that are
# refused, so only rounds count in which none had to wait that long.
my $second = new_node(
	'second', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_timeout' => TIMEOUT);
my @callers = map { ZkTest->new($_)->connect } ($node, $second) x 4;
my %rounds = (with => 0, without => 0, slow => 0);
my $limit = time() + 60;
while ($rounds{with} + $rounds{without} < 10 && time() < $limit)
{
	my $at = time() + 0.2;
	my ($winners, $longest) = (0, 0);

	$_->start(
		"SELECT pg_sleep($at - extract(epoch FROM clock_timestamp()));
		SELECT 'began ' || extract(epoch FROM clock_timestamp());
		SELECT 'all' WHERE zk_lock_acquire_all('{/looks/both/1, /looks/both/2}', '0');
		SELECT 'ended ' || extract(epoch FROM clock_timestamp())"
	) for @callers;
	for my $result (map { $_->result } @callers)
	{
		my ($took) = map { $_->[1] - $_->[0] } [ $result =~ /^(?:began|ended) (\S+)$/mg ];

		$winners += $result =~ /^all$/m;
		$longest = $took if $took > $longest;
	}
	cmp_ok($winners, '<=', 1, 'two do not get both locks') if $winners > 1;
	$rounds{ $winners ? 'with' : $longest < 0.05 ? 'without' : 'slow' }++;
	$_->query('SELECT zk_lock_release_all()') for @callers;
	wait_for_queue($zk, "/looks/both/$_") for 1, 2;
}
note("$rounds{$_} rounds $_ a winner") for qw(with without);
note("$rounds{slow} rounds without one took 50 ms or more");
is($rounds{without}, 0, 'of eight tries of two locks at once, one gets both');
cmp_ok($rounds{with}, '>', 0, '... at least once');
$second->stop;

# A node that another server keeps does not refuse a try that looks, and a held one refuses it
# as one that does not look.
my $keeps = new_node(
	'keeps', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => TIMEOUT,
	'zklock.keep_time' => '1min');
my $keeper = ZkTest->new($keeps)->connect;
$zk->make_path('/looks/kept');
my $before = $client->create('/looks/kept/_c_1-lock-', '', ZkClient::SEQUENCE);
is($session->query(try_lock('/looks/kept', 'exclusive')), 'f', 'a try is refused');
$client->delete($before);
is( $keeper->query(
		q(SELECT zk_lock_acquire('/looks/kept') AND zk_lock_release('/looks/kept'))),
	't',
	'another server uses the lock')
  for 1 .. 4;
is(scalar $zk->children('/looks/kept'), 1, '... and keeps it');
$proxy->wait_idle;
$proxy->mark;
is($session->query(try_lock('/looks/kept', 'exclusive')), 't', 'a try is granted the kept lock');
$proxy->wait_idle;
is_deeply([ (map { $_->{op} } $proxy->requests)[ 0 .. 3 ] ],
	[ @look, @enter ], '... which it has looked at');
$session->query('SELECT zk_lock_release_all()');
wait_for_queue($zk, '/looks/kept');
$keeps->safe_psql('postgres', q(SELECT zk_lock_acquire('/looks/held'), zk_lock_release_all()))
  for 1 .. 4;
is($keeper->query(q(SELECT zk_lock_acquire('/looks/held'))), 't', 'a server uses a lock that it keeps');
for (1 .. 2)
{
	$proxy->wait_idle;
	$proxy->mark;
	is($session->query(try_lock('/looks/held', 'exclusive')), 'f', 'a try of it is refused');
	is(($proxy->requests)[0]{op}, 'create2', '... and has not looked');
}
$keeper->close;
$keeps->stop;

$client->close;
done_testing();
