# Tests of the tools that other tests use: the temporary ZooKeeper server, the
# plain client, and the proxy that loses, delays, holds and counts frames
# between a client and the server.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Child;
use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(setitimer sleep time ITIMER_REAL);
use Wait;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkWire;

my $zk = ZkServer->new(container_check => 100)->start;

# Returns the frames since the last mark, one line for each.
my $proxy = ZkProxy->new($zk->hosts);

sub trace
{
	return map {
		join(' ', grep { defined && length } @$_{qw(dir op path err event)})
	} $proxy->trace;
}

sub connection_is_cut
{
	my ($client, $what) = @_;

	is(eval { $client->recv; 'a frame' } // $@,
		"the connection is closed\n", $what);
	return;
}

sub is_silent
{
	my ($client) = @_;

	return !IO::Select->new($client->{socket})->can_read(0.1);
}

#
# Server and client
#
is($zk->four_letter('ruok'), 'imok', 'the server answers a four-letter word');

my $client = ZkClient->new($zk->hosts);
is($client->create('/a', 'data'), '/a', 'create returns the name');
is($client->create('/a/n-', '', ZkClient::EPHEMERAL | ZkClient::SEQUENCE),
	'/a/n-0000000000', 'create returns the name with its number');
is($zk->get('/a')->{data}, 'data', 'get returns the data');
is($zk->get('/a/n-0000000000')->{ephemeralOwner},
	$client->session, 'an ephemeral node is owned by its session');
is_deeply([ $zk->children('/a') ], ['n-0000000000'], 'children are listed');
is(eval { $zk->create('/a') } // $@,
	"create /a: ZooKeeper error -110\n", 'an error is raised');
ok($zk->exists('/a'), 'a node exists');
is($zk->exists('/b'), undef, 'a node does not exist');
is($zk->get('/b'), undef, 'get of a missing node returns nothing');
is_deeply([ $zk->children('/b') ], [], 'a missing node has no children');
ok(!$zk->delete('/b'), 'delete of a missing node fails');

$client->close;
is_deeply([ $zk->children('/a') ], [], 'an ephemeral node ends with its session');

$client = ZkClient->new($zk->hosts);
$client->call('createContainer', '/c', '', ZkClient::CONTAINER);
$client->create('/c/child');
$client->delete('/c/child');
ok(wait_until('the empty container goes', sub { !$zk->exists('/c') }),
	'the container check runs at the requested interval');

$zk->pause;
is($zk->four_letter('ruok', 0.2), '', 'a paused server does not answer');
$zk->resume;
is($zk->four_letter('ruok'), 'imok', 'the server answers after it is resumed');

my $hosts = $zk->hosts;
$zk->restart;
is($zk->hosts, $hosts, 'the port is the same after a restart');
is($zk->get('/a')->{data}, 'data', 'data is the same after a restart');
$zk->kill9;
is($zk->four_letter('ruok'), '', 'a killed server does not answer');
$zk->start;
is($zk->get('/a')->{data}, 'data', 'data is the same after a crash');

#
# The trace
#
$client = ZkClient->new($proxy->hosts);
my $other = ZkClient->new($proxy->hosts);
$client->get('/a', 1);
$client->exists('/b');
$other->delete('/a');
is($client->recv->{xid}, -1, 'a watch fires through the proxy');

# Event and reply go to different clients, so they can arrive in either order.
my @trace = trace();
is_deeply(
	[ @trace[ 0 .. 8 ] ],
	[
		'c2s connect',
		's2c connect',
		'c2s connect',
		's2c connect',
		'c2s getData /a',
		's2c getData /a 0',
		'c2s exists /b',
		's2c exists /b -101',
		'c2s delete /a',
	],
	'the trace has requests and replies');
is_deeply(
	[ sort @trace[ 9 .. $#trace ] ],
	[ 's2c delete /a 0', 's2c event /a 0 deleted' ],
	'the trace has the watch event');
is(($proxy->trace)[4]{conn}, 1, 'the trace shows the connection');
is(($proxy->trace)[8]{conn}, 2, 'the trace shows the other connection');

$proxy->mark;
is_deeply([trace()], [], 'the trace begins at the mark');

# More than the socket buffers hold.
my $big = 'x' x 900_000;
my $count = 20;
$client->create('/big', $big);
$proxy->rule(dir => 's2c', op => 'getData', nth => $count, action => 'cut');
$client->send(getData => '/big') for 1 .. $count;
$proxy->wait_idle;
is( scalar(grep { index($client->recv->{results}, $big) > 0 } 1 .. $count),
	$count, 'big frames pass');
connection_is_cut($client, 'the connection is cut after all frames have passed');
$client = ZkClient->new($proxy->hosts);
$client->delete('/big');

my $signals = 0;
$proxy->rule(dir => 's2c', op => 'getData', action => 'delay', ms => 300);
{
	local $SIG{ALRM} = sub { $signals++ };
	setitimer(ITIMER_REAL, 0.05, 0.05);
	ok(eval { $client->get('/zookeeper') }, 'signals do not end the wait for an answer')
	  or diag($@);
	setitimer(ITIMER_REAL, 0);
}
cmp_ok($signals, '>', 0, 'signals arrived during the wait');

#
# Frames lost at a chosen position
#
$proxy->rule(
	dir => 'c2s',
	op => 'create',
	path => qr{^/lost},
	action => 'drop');
$client->create('/kept');
ok($zk->exists('/kept'), 'a rule leaves other paths alone');
$client->send(create => '/lost');
connection_is_cut($client, 'request lost: the client is cut off');
is($zk->exists('/lost'), undef, 'request lost: there is no node');

$client = ZkClient->new($proxy->hosts);
is($client->create('/lost'), '/lost', 'a rule acts once');
$client->delete('/lost');

$proxy->rule(dir => 's2c', op => 'create', action => 'drop');
$client->send(create => '/lost');
connection_is_cut($client, 'reply lost: the client is cut off');
ok($zk->exists('/lost'), 'reply lost: there is a node');

$client = ZkClient->new($proxy->hosts);
my $rule =
  $proxy->rule(dir => 's2c', nth => 2, action => 'cut', refuse => 1);
$client->get('/lost');
ok(!$proxy->fired($rule), 'a rule for the second frame has not fired after the first');
ok($client->get('/lost'), 'the frame before the cut passes');
ok($proxy->fired($rule), 'the rule has fired');
connection_is_cut($client, 'the connection is cut after the frame');
ok(!eval { ZkClient->new($proxy->hosts) }, 'new connections are refused');
$proxy->accept;
$client = ZkClient->new($proxy->hosts);
ok($client->get('/lost'), 'new connections are accepted again');

$proxy->rule(action => 'cut', refuse => 1);
$proxy->reset;
ok($client->get('/lost'), 'reset forgets the rules');
ok(!eval { $proxy->rule(op => 'creat', action => 'drop') },
	'a rule that can never fire is an error');

#
# Frames delayed and held back
#
$proxy->rule(dir => 's2c', op => 'getData', action => 'delay', ms => 300);
my $begin = time();
my @xids = ($client->send(getData => '/lost'), $client->send(exists => '/a'));
is_deeply([ map { $client->recv->{xid} } @xids ],
	\@xids, 'a delayed frame is not overtaken');
cmp_ok(time() - $begin, '>=', 0.3, 'the delay lasts as long as requested');

$proxy->mark;
$proxy->rule(dir => 'c2s', op => 'getData', action => 'delay', ms => 300);
$client->send(getData => '/lost');
$proxy->wait_idle;
is_deeply([trace()], [ 'c2s getData /lost', 's2c getData /lost 0' ],
	'wait_idle waits for replies');
$client->recv;

$proxy->mark;
$proxy->hold('c2s');
$client->send(create => '/held');
$proxy->wait_frame(dir => 'c2s', op => 'create');
is($zk->exists('/held'), undef, 'a held request does not reach the server');
$proxy->release('c2s');
is($client->recv->{err}, 0, 'a held request reaches the server after release');
ok($zk->exists('/held'), 'the released request takes effect');

$proxy->mark;
$proxy->hold('s2c');
@xids = map { $client->send(exists => $_) } qw(/a /held /lost);
$proxy->wait_frame(dir => 's2c', path => '/lost');
ok(is_silent($client), 'held replies do not reach the client');
$proxy->release('s2c');
is_deeply([ map { $client->recv->{xid} } @xids ],
	\@xids, 'released replies reach the client in order');

$proxy->rule(dir => 'c2s', op => 'delete', action => 'hold');
ok($client->exists('/held'), 'frames before the first held one pass');
$client->send(delete => '/held');
$client->send(exists => '/held');
ok(is_silent($client), 'no frame passes from the first held one on');
ok($zk->exists('/held'), 'the server has not seen the frame');
$proxy->release;
is($client->recv->{err}, 0, 'release lets the frame pass');
is($client->recv->{err}, -101, 'release lets the next frame pass');

$proxy->hold(undef, pings => 1);
my $xid = $client->send(exists => '/a');
is($client->recv->{xid}, -2, 'the session is kept alive during a hold');
$proxy->release;
my $reply;
do { $reply = $client->recv } until $reply->{xid} != -2;
is($reply->{xid}, $xid, 'held frames follow after release');

$proxy->mark;
$proxy->hold('s2c', pings => 1);
my $early = IO::Socket::INET->new(PeerAddr => $proxy->hosts);
my $answer = '';
syswrite($early, frame(pack('l> q> l> q> N/a* C', 0, 0, 30_000, 0, "\0" x 16, 0)));
my $greeting = $proxy->wait_frame(dir => 's2c', op => 'connect');
$proxy->wait_frame(dir => 's2c', op => 'ping', conn => $greeting->{conn});
$proxy->release;
read_more($early, \$answer, time() + $Wait::timeout) until $answer =~ /^.{20}/s;
is(sprintf('0x%x', (unpack('l> l> l> q>', $answer))[3]), $greeting->{session},
	'a client that connects during a hold gets its session before any ping');
close($early);

#
# Beats
#
sub beat
{
	return $client->send(setData => '/', '', BEAT);
}

sub take_beat
{
	return $client->recv->{err} == -103;
}

$client = ZkClient->new($proxy->hosts);
$proxy->mark;
$rule = $proxy->rule(dir => 'c2s', nth => 2, action => 'cut');
my $on_beats = $proxy->rule(dir => 's2c', op => 'beat', nth => 3, action => 'delay', ms => 1);
for (1 .. 3)
{
	beat();
	ok(take_beat(), 'a beat is refused for its version');
}
is(scalar $proxy->beats, 3, 'the proxy counts beats');
is_deeply([trace()], [], '... not as frames');
ok(!$proxy->fired($rule), '... nor for a rule that does not name them');
ok($proxy->fired($on_beats), '... but for one that does');
ok($client->exists('/'), 'the first frame passes');
$client->send(exists => '/');
connection_is_cut($client, 'the connection is cut after the second');

$client = ZkClient->new($proxy->hosts);
$proxy->hold('c2s', pings => 1);
beat();
1 while !take_beat();
pass('a beat passes during a hold that keeps sessions alive');
@xids = ($client->send(exists => '/a'), beat());
is_deeply([ grep { $_ != -2 } map { $client->recv->{xid} } 1 .. 3 ],
	[], '... unless another frame is held before it');
$proxy->release;
my @answers;
while (@answers < 2)
{
	my $next = $client->recv->{xid};
	push @answers, $next if $next != -2;
}
is_deeply(\@answers, \@xids, '... which it then follows');
$proxy->hold('s2c');
beat();
ok(is_silent($client), 'other holds hold it');
$proxy->wait_answered;
pass('no answer is owed, except for that of a beat');
$proxy->release;
ok(take_beat(), '... until the release');

#
# Counting flights
#
sub pipelined
{
	my @sent = map { $client->send(exists => $_) } @_;

	$client->recv for @sent;
	return;
}

# Waits longer than usual for silence: on a busy machine, a delayed process
# could otherwise look like silence.
sub flights
{
	my ($code) = @_;

	return $proxy->flights($code, 0.5);
}

# The proxy's own pings may have been answered late.
$client = ZkClient->new($proxy->hosts);
$other = ZkClient->new($proxy->hosts);
is(flights(sub { }), 0, 'no request: no flight');
is(flights(sub { pipelined('/a', '/b') }),
	1, 'two pipelined requests: 1 flight');
is(flights(sub { pipelined('/a'); pipelined('/b') }),
	2, 'two requests one after the other: 2 flights');
is( flights(
		sub { pipelined('/a'); pipelined('/b', '/c'); pipelined('/d') }),
	3,
	'one request, two, and one: 3 flights');
is( $proxy->flights(
		sub {
			pipelined('/a');
			@xids = $client->send(exists => '/b');
			sleep(0.1);
			push @xids, $client->send(exists => '/c');
			$client->recv for @xids;
		},
		1),
	2,
	'a pause shorter than the settle time adds no flight');
is( flights(
		sub {
			pipelined('/a');
			for (1 .. 3)
			{
				beat();
				take_beat();
			}
			$client->send(exists => '/b');
			beat();
			$client->recv for 1 .. 2;
		}),
	2,
	'beats: no flight');
is($proxy->flights(sub { $xid = $client->send(exists => '/a') }, 1),
	0, 'a request whose reply is not awaited: no flight');
is($client->recv->{xid}, $xid, 'its reply arrives later');
$client->get('/kept', 1);
is( flights(
		sub {
			pipelined('/a');
			$zk->delete('/kept');
			$client->recv;
		}),
	1,
	'an event caused by a client outside the proxy: no flight');
$client->get('/lost', 1);
is( flights(
		sub {
			$other->send(delete => '/lost');
			$client->recv;
		}),
	1,
	'a request of one client and its event at the other: 1 flight');
$other->recv;
is(eval { $proxy->flights(sub { die "broken\n" }) } // $@,
	"broken\n", 'an error in the code is passed on');
ok(!$client->exists('/lost'), 'replies come without delay again');

#
# Shutdown
#
$proxy->cut;
connection_is_cut($_, 'all connections are cut') for $client, $other;

$client = ZkClient->new($proxy->hosts);
$zk->kill9;
connection_is_cut($client, 'the client notices the end of the server');
$zk->start;
$client = ZkClient->new($proxy->hosts);
is($client->exists('/lost'), undef, 'the proxy connects to a restarted server');
$client->close;

my $address = $proxy->hosts;
$proxy->stop;
ok(!IO::Socket::INET->new(PeerAddr => $address), 'a stopped proxy accepts no connections');

#
# The end of a program that runs its own servers
#
{
	local $ENV{ZKLOCK_INSTALLED} = 1;
	my $log = PostgreSQL::Test::Utils::tempdir_short() . '/log';
	my $program = Child->start(
		$log, $^X, "-I$FindBin::RealBin/../perl", '-MStage', '-e', q(
			set_up('demo', sub { print "stopped\n" });
			END { print "ending\n"; <STDIN> }
			print "started\n";
			sleep(1) while 1));

	for my $line (qw(started ending))
	{
		wait_until("the program is $line", sub { $program->output =~ /^$line$/m });
		kill('TERM', $program->{pid});
	}
	$program->say('go on');
	is($program->end($Wait::timeout), 1 << 8, 'a program ends after two signals');
	like($program->output, qr/^stopped$/m, '... and has stopped its servers');
}

done_testing();
