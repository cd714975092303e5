# The paths of a session's nodes have a limit, zklock.max_session_size. ZooKeeper
# writes all of them into one transaction when the session ends, and servers cannot
# read one that is too large.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use List::Util qw(sum0);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant {
	LIMIT => 64 * 1024,
	LOCKS => 60 * 1024,    # without the part for records of waits
	LENGTH => 1000,
	TOO_MANY => qr/^ERROR:  53200: too many ZooKeeper nodes to take lock on "\/.*"
DETAIL:  The paths of the nodes of .* zklock\.max_session_size \(64 kB\)/m,
};

# What the name of a node adds to the path of its lock, at most, and the length field
use constant NODE => LENGTH + length('/_c_-lock-') + 36 + 11 + 4;

# The root is part of the nodes' paths.
my $zk = ZkServer->new->start;
$zk->make_path('/root');
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $proxy->hosts . '/root', 'zklock.max_session_size' => '64kB');
my $client = ZkClient->new($zk->hosts);

$node->safe_psql('postgres', 'CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN');

sub session_of
{
	my ($role, %settings) = @_;

	local $ENV{PGUSER} = $role;
	return ZkTest->new($node, %settings);
}

# The bytes of the paths of nodes below a path
sub size_of
{
	my ($path) = @_;

	return sum0(
		map {
			my $dir = "$path/$_";
			map { 4 + length("$dir/$_") } $client->children($dir)
		} $client->children($path));
}

sub wait_until_empty
{
	wait_until('no lock has a node',
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t0$/m });
	return;
}

# The path of a lock, as an expression of its number
sub path_of
{
	my ($name) = @_;

	return "rpad('/$name/' || i || '-', @{[LENGTH]}, 'x')";
}

# Takes locks of this name until one is refused, and returns how many were
# taken, and the error.
sub take
{
	my ($session, $name) = @_;
	my $answer = $session->query(sprintf(
		'DO $$BEGIN FOR i IN 1..1000 LOOP PERFORM zk_lock_acquire(%s); END LOOP; END$$',
		path_of($name)));

	return ($session->query(qq(SELECT count(*) FROM zk_locks
		WHERE pid = pg_backend_pid() AND path LIKE '/$name/%')), $answer);
}

# One backend, or one role

my $alice = session_of('alice');
my $most = int(LOCKS / (NODE + length('/root')));

$most = int($most / 2) if server_mode();
my ($taken, $error) = take($alice, 'alice');
cmp_ok(abs($taken - $most), '<=', 1, "about $most locks are taken");
like($error, TOO_MANY, '... then one is refused');
unlike($error, qr/x{5000}/, '... with a message of moderate length');
cmp_ok(size_of('/root/alice'), '<=', LOCKS / (server_mode() ? 2 : 1), '... and the nodes are within the limit');
is(scalar $client->children('/root/alice'), $taken, '... and the refused lock has no parent');
is($alice->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
	$taken, '... and no entry');
is($alice->query('SELECT bool_and(NOT lost) FROM zk_locks'), 't', '... and nothing is lost');
like($alice->query(sprintf(q(SELECT zk_lock_acquire(replace(%s, repeat('x', 200), repeat('x', 199) || '/'), mode => '%s')
		FROM (SELECT 1001) AS t(i)), path_of('alice'), $_)), TOO_MANY, "... a $_ lock neither")
  for qw(shared write simple);
like($alice->query(sprintf('SELECT zk_semaphore_acquire(%s, 3) FROM (SELECT 1001) AS t(i)',
		path_of('alice'))), TOO_MANY, '... nor a lease');
like($alice->query(sprintf(q(SELECT zk_lock_acquire(%s, '0') FROM (SELECT 1001) AS t(i)),
		path_of('alice'))), TOO_MANY, '... nor is one tried');
is($alice->query(sprintf('SELECT zk_lock_acquire(%s) FROM (SELECT 1) AS t(i)', path_of('alice'))),
	't', 'a lock that is held can be taken again');
like($alice->query(sprintf('SELECT zk_lock_acquire(%s, mode => %s) FROM (SELECT 1) AS t(i)',
		path_of('alice'), "'shared'")), TOO_MANY, '... but not downgraded');

# Others are not affected.
my $bob = session_of('bob');
is($bob->query(q(SELECT zk_lock_acquire('/bob'))), 't', 'another role takes its first lock');
my ($of_bob) = take($bob, 'bob');
my $left = server_mode() ? int($most / 2) : $most;
cmp_ok(abs($of_bob - $left), '<=', 1, "... and about $left more");
cmp_ok(size_of('/root/alice') + size_of('/root/bob'), '<=', LOCKS, '... within the limit')
  if server_mode();

# Another backend of the same role
if (server_mode())
{
	my $second = session_of('alice');

	like($second->query(sprintf('SELECT zk_lock_acquire(%s) FROM (SELECT 1) AS t(i)', path_of('second'))),
		TOO_MANY, 'another backend of a role at its limit gets no lock');
	$second->close;
}

# What is given up makes room, without an error meanwhile.
$_->query('SELECT zk_lock_release_all()') for $alice, $bob;
my $half = int($most / 2);
my $all = sprintf('ARRAY(SELECT %s FROM generate_series(1, %d) AS i)', path_of('again-NR'), $most - 1);
for my $nr (1 .. 20)
{
	my $paths = $all =~ s/NR/$nr/r;
	my $answer = $alice->query("SELECT zk_lock_acquire_all($paths); SELECT zk_lock_release_all()");

	is($answer, "t\n" . ($most - 1), "as many locks as possible, time $nr") if $answer ne "t\n" . ($most - 1);
}
pass('as many locks as possible are taken and released again and again');
like($alice->query(sprintf('SELECT zk_lock_acquire_all(ARRAY(SELECT %s FROM generate_series(1, %d) AS i))',
		path_of('many'), 3 * $most)), TOO_MANY, 'too many at once are refused');
wait_until_empty();
pass('... and leave no node');

# Nodes that are given up count until their deletes are answered.
$alice->query("SELECT zk_lock_acquire_all($all)");
my $rule = $proxy->rule(dir => 's2c', op => 'delete', action => 'hold');
$alice->query('SELECT zk_lock_release_all()');
wait_until('a reply is held', sub { $proxy->fired($rule) });
like($alice->query(sprintf(q(SELECT zk_lock_acquire_all(ARRAY(SELECT %s FROM generate_series(1, %d) AS i), '1s')),
		path_of('early'), $most - 1)), qr/^ERROR:  08006/,
	'who has given up as many locks must wait until they are deleted');
is(size_of('/root/early'), 0, '... and has no more nodes');
$proxy->release;
is($alice->query("SELECT zk_lock_acquire_all($all)"), 't', '... and then takes others');
$alice->query('SELECT zk_lock_release_all()');
wait_until_empty();

# Backends at the limit are refused at the same time, however many there are.
if (server_mode())
{
	my @sessions = map { session_of('alice') } 1 .. 70;

	take($alice, 'alice');
	$_->start(q(DO $$
		BEGIN
			FOR i IN 1..2 LOOP
				BEGIN
					PERFORM zk_lock_acquire(rpad('/poll/' || pg_backend_pid(), 1000, 'x'), '0');
					RAISE 'a lock is granted';
				EXCEPTION
					WHEN out_of_memory THEN
				END;
			END LOOP;
		END$$)) for @sessions;
	is(join('', map { $_->result } @sessions), '', 'many that do not wait are refused');
	$_->close for @sessions;
	$alice->query('SELECT zk_lock_release_all()');
	wait_until_empty();
}

# A lock that is handed over counts for the role that has it.
if (server_mode() eq 'gate')
{
	my @paths = map { my $i = $_; path_of('gate') =~ s/\bi\b/$i/r } 1 .. $most - 1;

	change_setting($node, 'zklock.handover_time', '1h', $alice, $bob);
	$alice->query("SELECT zk_lock_acquire_all(ARRAY[@{[join(', ', @paths)]}])");
	my @bobs = map { my $s = session_of('bob'); $s->start("SELECT zk_lock_acquire($_)"); $s } @paths[0 .. 9];

	$_->wait_for_lock for @bobs;
	$alice->query("SELECT zk_lock_release($_)") for @paths;
	is($_->result, 't', 'a lock is handed over') for @bobs;
	($taken, $error) = take($alice, 'alice');
	like($error, TOO_MANY, 'the role that had the locks takes others');
	my $rest = int((LOCKS / (NODE + 5) - 10) / 2);
	cmp_ok(abs($taken - $rest), '<=', 1, "... about $rest, as the locks of the other role are not its own");
	$_->close for @bobs;
	$alice->query('SELECT zk_lock_release_all()');
	wait_until_empty();
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.handover_time');
	$node->reload;

	# Nodes that are kept make room.
	change_setting($node, 'zklock.keep_time', '1min', $alice, $bob);
	for my $round (1 .. 3)
	{
		$alice->query("SELECT zk_lock_acquire($_), zk_lock_release($_)") for @paths;
	}
	wait_until('locks are kept',
		sub { $node->safe_psql('postgres', 'SELECT kept FROM zk_server_status') > 5 });
	($of_bob) = take($bob, 'bob');
	cmp_ok(abs($of_bob - $most), '<=', 1, 'nodes that are kept are given up for others');
	$bob->query('SELECT zk_lock_release_all()');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.keep_time');
	$node->reload;
}

# Who waits for nodes that it has given up is told when they are gone, and when ZooKeeper refuses
# to delete them. With such a timeout of the session, it looks by itself only after more than a
# minute.
my $patient = new_node(
	'patient', $proxy->hosts . '/root',
	'zklock.max_session_size' => '64kB',
	'zklock.session_timeout' => '10min',
	'zklock.deadlock_detection' => 'off');
my %calls = (
	one => sprintf(q(SELECT zk_lock_acquire(%s, '5min') FROM (SELECT 1) AS t(i)), path_of('one')),
	many => sprintf(q(SELECT zk_lock_acquire_all(ARRAY(SELECT %s FROM generate_series(1, 3) AS i), '5min')),
		path_of('many')));

for my $refuses (0, 1)
{
	$patient->append_conf('postgresql.conf', q(zklock.acl = 'world:anyone:crwa')) if $refuses;
	for my $call (sort keys %calls)
	{
		# What was not deleted stays until the session ends.
		$patient->restart if $refuses;
		my $waiter = ZkTest->new($patient);

		take($waiter, "$call-$refuses");
		$rule = $proxy->rule(dir => 's2c', op => 'delete', action => 'hold');
		$waiter->query('SELECT zk_lock_release_all()');
		wait_until('a reply is held', sub { $proxy->fired($rule) });
		$waiter->start($calls{$call});
		$waiter->wait_for_event('Extension');
		my $told_at = time();
		$proxy->release;
		like($waiter->result =~ s/x{99,}/x/r, $refuses ? TOO_MANY : qr/^t$/,
			"$call: who waits is told that nodes @{[$refuses ? 'stay' : 'are gone']}");
		cmp_ok(time() - $told_at, '<', 60, '... at once');
		$waiter->close;
	}
}
$patient->stop;

# Only the server's configuration sets the limit.
like($alice->query(q(SET zklock.max_session_size = '1GB')), qr/^ERROR:  55P02/,
	'the limit cannot be set in a session');
change_setting($node, 'zklock.max_session_size', '128kB', $alice, $bob);
wait_until('the worker knows the limit, too',
	sub {
		my ($n) = take($alice, 'large');

		$alice->query('SELECT zk_lock_release_all()');
		return $n > 1.8 * $most;
	});
pass('the limit can be changed while the server runs');

done_testing();
