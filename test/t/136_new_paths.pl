# Paths that are created: how many parts they may have, how fast a role creates them, who
# waits for that, and what becomes of those that nobody has used.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

# As in src/protocol/newpath.h
my ($most, $at_once, $per_minute) = (32, 1000, 9000);

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $zk->hosts, shared_preload_libraries => 'zklock');

sub session_of
{
	my ($role, %settings) = @_;
	local $ENV{PGUSER} = $role;

	return ZkTest->new($node, %settings)->connect;
}

# A path of so many parts
sub deep
{
	my ($first, $parts) = @_;

	return "/$first" . '/x' x ($parts - split(/\//, $first));
}

$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN") for qw(shop bank store app);
my $admin = ZkTest->new($node)->connect;

sub cancel
{
	my ($session) = @_;

	$admin->query("SELECT pg_cancel_backend(${\ $session->pid})");
	like($session->result, qr/^ERROR:  57014/, 'a wait can be cancelled');
}

# The number of locks below or at this path that are waited for.
sub waiting
{
	my ($path) = @_;

	return $admin->query("SELECT count(*) FROM zk_locks WHERE NOT granted AND path LIKE '$path'");
}

# 1. Parts

my $too_deep =
  qr/^ERROR:  54000: could not (?:lock|set count) "\/(?:deep|exists)\/[^"]*"\nDETAIL:  .*more than $most parts.*\nHINT:  /m;
my $refused = deep('deep', $most + 1);
for my $call (
	(map { qq(SELECT zk_lock_acquire('$refused', mode => '$_')) } qw(exclusive shared write)),
	"SELECT zk_lock_acquire('$refused/x', mode => 'simple')",
	"SELECT zk_lock_acquire('$refused', '0')",
	"SELECT zk_lock_acquire('$refused', '0')",
	"SELECT zk_lock_acquire('$refused', scope => 'transaction')",
	"SELECT zk_lock_guard('$refused')",
	"CALL zk_lock_wait('$refused')",
	"SELECT zk_lock_acquire_all('{/fine, $refused}')",
	"SELECT zk_lock_acquire_all('{/fine, $refused}', '0')",
	"SELECT zk_semaphore_acquire('${\ deep('deep', $most)}', 2)",
	"SELECT zk_shared_count_set('$refused', 2)",
	"SELECT zk_lock_acquire('/deep${\ ('/x' x 509)}')")
{
	like($admin->query($call), $too_deep, substr($call, 0, 40) . '... is refused');
}
is($admin->query('SELECT count(*) FROM zk_locks'), 0, '... and nothing is held');
is(scalar(grep { $_ eq 'deep' } $zk->children('/')), 0, '... or created');

for my $call (
	"zk_lock_acquire('${\ deep('most/a', $most)}')",
	"zk_lock_acquire('${\ deep('most/b', $most)}/y', mode => 'simple')",
	"zk_semaphore_acquire('${\ deep('most/c', $most - 1)}', 2)",
	"zk_lock_acquire_all(array_agg('/most/d' || i || '${\ deep('x', $most - 2)}'))")
{
	my $from = $call =~ /array_agg/ ? ' FROM generate_series(1, 3) AS i' : '';

	is($admin->query("SELECT $call$from"), 't', substr($call, 0, 30) . '... is created');
}
$admin->query('SELECT zk_lock_release_all()');

my $existing = deep('exists', 3 * $most);
$zk->make_path("$existing/$_") for qw(x s/leases s/locks);
for my $mode (qw(exclusive shared write))
{
	is($admin->query("SELECT zk_lock_acquire('$existing/x', mode => '$mode')"), 't',
		"a path that exists may have more parts, in mode $mode");
	is($admin->query(qq(SELECT count(*) FROM zk_lock_queue('$existing/x'))), 1, '... and is shown');
	is($admin->query('SELECT zk_lock_release_all()'), 1, '... and released');
}
is($admin->query("SELECT zk_lock_acquire('$existing/y', mode => 'simple'), zk_semaphore_acquire('$existing/s', 2)"),
	't|t', '... as a simple lock, and a semaphore');
like($admin->query("SELECT zk_lock_acquire('$existing/z')"), $too_deep,
	'... but not one more part is created');
$admin->query('SELECT zk_lock_release_all()');

{
	my $chroot = deep('root', 8);
	$zk->make_path($chroot);
	my $below = new_node('below', $zk->hosts . $chroot, shared_preload_libraries => 'zklock');

	is(ZkTest->new($below)->query("SELECT zk_lock_acquire('${\ deep('deep', $most)}')"), 't',
		'the path at the end of zklock.hosts does not count');
	$below->stop;
}

# 2. The pace of a role

# Takes locks on $n paths, each with 29 new parts.
my $many = 100;
my $all = sub {
	my ($path, $n, $timeout) = @_;
	return "SELECT zk_lock_acquire_all(array_agg('/$path/' || i || '${\ deep('x', 28)}'), '$timeout')
		FROM generate_series(1, $n) AS i";
};
my $not_in_time =
  qr/^ERROR:  53400: could not create lock path "\/\w+\/\w+(?:\/x)+" in ZooKeeper in time\nDETAIL:  .* $at_once at once, and $per_minute a minute\.\nHINT:  /m;
my $began;
my ($shop, $shop2) = map { session_of('shop') } 1 .. 2;
my $bank = session_of('bank');

is($shop->query(q(SELECT zk_lock_acquire('/before'), zk_lock_release('/before'))), 't|t',
	'a path is created before');
like($shop->query($all->('a', $many, '5s')), $not_in_time,
	'a role that creates many paths has to wait, at most until its timeout');
cmp_ok(scalar($zk->children('/a')), '>=', int($at_once / 29), '... after some that it could create');
like($shop2->query($all->('b', $many, '3s')), $not_in_time, '... also in another session');
is($shop->query(q(SELECT zk_lock_acquire('/before', '0'), zk_lock_release('/before'))), 't|t',
	'... but not for a path that exists');
is($bank->query(q(SELECT zk_lock_acquire('/bank', '0'), zk_lock_release('/bank'))), 't|t',
	'another role does not wait');

$shop->start($all->('c', $many, '60s'));
wait_until('it waits', sub { grep { $_ eq 'c' } $zk->children('/') });
cancel($shop);

# The first session has used up what the role may create at once.
{
	my ($first, $second) = map { session_of('store') } 1 .. 2;

	$first->start($all->('store', 3 * $many, '60s'));
	wait_until('it waits', sub { my @paths = $zk->children('/store'); @paths >= $at_once / 30; });
	for my $i (1 .. 3)
	{
		my $path = "/meanwhile/$i";

		is($second->query("SELECT zk_lock_acquire('$path', '10s'), zk_lock_release('$path')"),
			't|t', "another session of the role has its turn ($i)");
	}
	ok(!$first->is_done, '... while the first one waits');
	cancel($first);
	$_->close for $first, $second;
}

# At a gate, one node is for sessions of several roles.  Here, the first one waits for its
# pace as long as other paths of its session come before.
my $batch = session_of('shop');
$batch->start($all->('batch', 3 * $many, '60s'));
for my $mode (qw(exclusive shared))
{
	my $path = deep("shared/$mode", 30);
	my $before = "$mode/before";

	$shop->start("SELECT zk_lock_acquire_all(array_agg('/$before/' || i || '${\ deep('x', 27)}') || '$path'::text, '60s', '$mode')
		FROM generate_series(1, $many) AS i");
	wait_until('the first one waits', sub { my @paths = $zk->children("/$before"); @paths > 1; });
	$bank->start("SELECT zk_lock_acquire('$path', '30s', '$mode'), zk_lock_release('$path', '$mode')");
	wait_until('another role waits', sub { waiting($path) == 2 || $bank->is_done });
	$began = time();
	wait_until('the path is created', sub { $zk->exists($path) });
	cancel($shop) if $mode eq 'exclusive';
	is($bank->result, 't|t', "another role creates the path, in mode $mode");
	cmp_ok(time() - $began, '<', 5, '... at its own pace');
	cancel($shop) if $mode eq 'shared';
}
cancel($batch);
$batch->close;
like($shop->query("SET lock_timeout = '300ms'; " . $all->('d', $many, '60s') . '; RESET lock_timeout'),
	qr/^ERROR:  55P03/m, '... and ended by lock_timeout');
is($admin->query('SELECT count(*) FROM zk_locks'), 0, '... and leaves no lock');
$began = time();
is($shop->query($all->('e', 30, '60s')), 't', 'otherwise it waits until all are created');
cmp_ok(time() - $began, '>', 1, '... for a while');
is($shop->query('SELECT zk_lock_release_all()'), 30, '... and releases them');
$_->close for $shop, $shop2, $bank;

# Of these, two parts are new, and the others are requested once it is known that a parent is
# missing.  If these counted, the role would have to wait for longer than its timeout.
{
	my $app = session_of('app');

	is($app->query("SELECT zk_lock_acquire_all(array_agg('${\ deep('app', 20)}/' || i || '/y'), '20s')
			FROM generate_series(1, 300) AS i"),
		't', 'parts that existed do not count');
	$app->close;
}

my $no_answer = qr/^ERROR:  08006: ZooKeeper did not answer in time/m;

# The last path had to wait for the pace, and the answer to its request does not come any more.
# It is late for this reason only after a sixth of the session's timeout.
for my $case (
	[ 'late', '60s', '8s', $not_in_time, 'who had to wait is told so, also if the request is under way at last' ],
	[ 'silent', '20s', '12s', $no_answer, '... but not if ZooKeeper did not answer it for long' ])
{
	my ($name, $session_timeout, $timeout, $error, $what) = @$case;
	my $last = deep("$name/z", 30);
	my $server = new_node(
		$name, $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => $session_timeout);
	my $session = ZkTest->new($server)->connect;

	$proxy->rule(
		dir => 's2c',
		op => 'createContainer',
		path => "^/$name/z\$",
		action => 'hold',
		pings => 1);
	like($session->query("SELECT zk_lock_acquire_all(array_agg('/$name/' || i || '${\ deep('x', 28)}') || '$last'::text, '$timeout')
			FROM generate_series(1, 40) AS i"),
		$error, $what);
	$proxy->reset;
	$session->close;
	$server->stop;
}

# Others that wait at the same gate, when the answer that the path is missing comes late, and
# when the path has come to exist before the connection is lost.
{
	my $server = new_node(
		'race', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '60s');
	my $watcher = ZkTest->new($server)->connect;
	my $other_role = sub {
		local $ENV{PGUSER} = 'other';
		return ZkTest->new($server)->connect;
	};
	my $waiting = sub {
		return $watcher->query("SELECT count(*) FROM zk_locks WHERE NOT granted AND path = '$_[0]'");
	};

	$watcher->query('CREATE ROLE other LOGIN');
	my ($batch, $first) = map { ZkTest->new($server)->connect } 1 .. 2;
	my @others = map { $other_role->() } 1 .. 3;
	$_->query(q(SELECT zk_lock_acquire('/before'), zk_lock_release('/before'))) for $first, @others;
	$batch->start($all->('crowd', 5 * $many, '60s'));
	wait_until('it waits', sub { $zk->exists('/crowd') && scalar($zk->children('/crowd')) >= $at_once / 30 });

	my $path = deep('race', 30);
	my $rule = $proxy->rule(
		dir => 's2c',
		op => 'create2',
		path => '^/race/',
		action => 'hold',
		pings => 1);
	my $after_many = sub {
		my ($before, $last) = @_;
		return "SELECT zk_lock_acquire_all(array_agg('/$before/' || i || '${\ deep('x', 28)}') || '$last'::text, '60s', 'shared')
			FROM generate_series(1, $many) AS i";
	};
	$first->start($after_many->('sooner', $path));
	wait_until('it is not known yet that the path is missing', sub { $proxy->fired($rule) });
	$others[0]->start("SELECT zk_lock_acquire('$path', '5s', 'shared')");
	wait_until('another role waits', sub { $waiting->($path) == 2 || $others[0]->is_done });
	$proxy->reset;
	is($others[0]->result, 't', 'a role does not wait for the pace of another one that came before');

	my $taken = deep('taken', 30);
	$watcher->query("SELECT pg_cancel_backend(${\ $first->pid})");
	$first->result;
	$first->start($after_many->('later', $taken));
	wait_until('it waits', sub { $waiting->($taken) == 1 && $zk->exists('/later') });
	$zk->make_path($taken);
	my $ahead = $zk->create("$taken/_c_1-__WRIT__", '', ZkClient::SEQUENCE);
	$proxy->cut;
	wait_until('it has a node', sub { scalar($zk->children($taken)) == 2 });
	$_->start("SELECT zk_lock_acquire('$taken', '30s', 'shared')") for @others;
	wait_until('all wait', sub { $waiting->($taken) == 1 + @others });
	$zk->delete($ahead);
	is($_->result, 't', 'readers get the lock') for @others;
	is(scalar($zk->children($taken)), server_mode() eq 'gate' ? 1 : 1 + @others,
		'... with one node at a gate, as the path exists');
	for ($first, $batch)
	{
		$watcher->query("SELECT pg_cancel_backend(${\ $_->pid})");
		$_->result;
	}
	$_->close for $watcher, $batch, $first, @others;
	$server->stop;
}

# 3. Requests under way

# The worker has a limited number of creates under way, with those of parents.  From the
# first answer to one for an ancestor on, none arrives.
SKIP:
{
	skip('there is no worker', 2) if !server_mode();

	my ($creating, $parts) = (256, 30);
	my $server = new_node(
		'slow', $proxy->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '60s');
	my ($attacker, $other) = map { ZkTest->new($server)->connect } 1 .. 2;

	$other->query(q(SELECT zk_lock_acquire('/other'), zk_lock_release('/other')));
	$proxy->mark;
	my $rule = $proxy->rule(
		dir => 's2c',
		op => 'createContainer',
		path => '^/many$',
		action => 'hold',
		pings => 1);
	$attacker->start("SELECT zk_lock_acquire_all(array_agg('/many/' || i || '${\ deep('x', $parts - 2)}'), '60s')
		FROM generate_series(1, 300) AS i");
	wait_until('an ancestor is requested', sub { $proxy->fired($rule) });
	$proxy->wait_idle;
	my %of;
	$of{ $_->{path} }++
	  for grep { $_->{op} eq 'createContainer' && $_->{path} =~ m{^/many(/\d+(/x)*)?$} } $proxy->requests;
	my $ancestors = 0;
	$ancestors += $of{$_} for grep { !m{(/x){${\ ($parts - 2)}}$} } keys %of;
	cmp_ok($ancestors, '>', 0, 'ancestors are requested');
	cmp_ok($ancestors, '<=', $creating + $parts, '... as many as may be under way');
	$proxy->reset;
	is($attacker->result, 't', '... and all in the end');
	$_->close for $attacker, $other;
	$server->stop;
}

# 4. Paths that were never used

# The connection is lost in the middle of the flight that creates a path, and the lock is given
# up. The page names the property of ZooKeeper with which it removes what is left.
my $page = slurp_file("$FindBin::RealBin/../../docs/zookeeper.md");
my ($property) = $page =~ /^JAVA_OPTS="-D(znode\.container\.\w+)=\d+"$/m;
for my $option ("-D$property=1000", "-D$property=0")
{
	my $keeper = ZkServer->new(container_check => 200)->launch($option)->wait_until_serving;
	my $between = ZkProxy->new($keeper->hosts);
	my $server = new_node("cut$option" =~ s/\W//gr, $between->hosts, shared_preload_libraries => 'zklock');
	my $session = ZkTest->new($server)->connect;

	$between->rule(
		dir => 'c2s',
		op => 'createContainer',
		path => '^/left/a$',
		action => 'cut',
		refuse => 1);
	like($session->query(q(SELECT zk_lock_acquire('/left/a/b', '2s'))), qr/^ERROR:  08006/,
		'the connection is lost while a path is created');
	wait_until('a part of it is there', sub { $keeper->exists('/left/a') }) if $option =~ /=0$/;
	$between->reset;
	$session->close;
	ZkTest->new($server)->query(q(SELECT zk_lock_acquire('/used'), zk_lock_release('/used')));
	wait_until('a path that was used is removed', sub { !$keeper->exists('/used') });
	if ($option =~ /=0$/)
	{
		ok($keeper->exists('/left/a'), '... but not what was never used');
	}
	else
	{
		ok(wait_until('what was never used is removed', sub { !$keeper->exists('/left') }),
			"... and what was never used, with $option");
	}
	$server->stop;
	$keeper->stop;
}

done_testing();
