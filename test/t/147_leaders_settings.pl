# zklock.leaders: invalid values, paths that are in use when they are added, limits, and what a
# role can do there that has nothing but CONNECT.
#
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;

sub wait_for_state
{
	my ($session, $path, $state) = @_;

	return wait_until("$path: $state",
		sub { $session->query("SELECT state FROM zk_leaders WHERE path = '$path'") eq $state });
}

# A library that is not preloaded

my $plain = new_node('plain', $zk->hosts, shared_preload_libraries => '', OWN_SESSION,
	'zklock.leaders' => '/leaders/a');
my $session = ZkTest->new($plain);
for my $function (qw(zk_leads zk_leader_guard zk_leader_resign))
{
	like($session->query("SELECT $function('/leaders/a')"),
		qr{^ERROR:  55000: this server (?:cannot|does not) lead "/leaders/a"\nDETAIL:  zklock is not in shared_preload_libraries\.$}m,
		"$function() without shared_preload_libraries");
}
is($session->query('SELECT count(*) FROM zk_leaders'), 0, '... and the view is empty');
is($session->query(q(SELECT zk_lock_acquire('/leaders/a'), zk_lock_release_all())), 't|1',
	'... and locks can be taken there');
$plain->stop;

# Invalid values

my $node = new_node('main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.max_locks' => 200,
	'zklock.leaders' => '/leaders/a');
my %invalid = (
	'/leaders/a,b' => 'The path must be absolute',
	'/leaders/a,,/leaders/b' => 'The path must be absolute',
	'/leaders/a, /leaders/a' => 'A path is listed twice',
	'/leaders/leases/a' => 'The path has a part "leases"',
	'/zklock/a' => '"/zklock" is reserved',
	'/leaders/' . 'x' x 1020 => 'The path is longer than 1024 bytes',
	join(',', map { "/leaders/$_" } 1 .. 65) => 'There are too many paths');
my ($one, $two, $observer) = map { ZkTest->new($node) } 1 .. 3;
my $file = $node->data_dir . '/postgresql.conf';
my $conf = slurp_file($file);

sub configure
{
	my ($text) = @_;

	unlink($file);
	append_to_file($file, "$conf$text\n");
	return;
}

wait_for_state($observer, '/leaders/a', 'leads');
for my $value (sort keys %invalid)
{
	my $size = -s $node->logfile;

	like($observer->query("ALTER SYSTEM SET zklock.leaders = '$value'"),
		qr/^ERROR:  22023: invalid value for parameter "zklock.leaders"/m,
		'invalid: ' . substr($value, 0, 30));
	configure("zklock.leaders = '$value'");
	$node->reload;
	wait_until('the server has said why',
		sub { substr(slurp_file($node->logfile), $size) =~ /\Q$invalid{$value}\E/ });
	is($observer->query('SELECT path, state FROM zk_leaders'), '/leaders/a|leads',
		'... and the former value stays');
}
$node->stop;
ok(!$node->start(fail_ok => 1), 'a server with such a value does not start') or $node->stop;
configure('');
$node->start;
$_->close for $one, $two, $observer;
($one, $two, $observer) = map { ZkTest->new($node) } 1 .. 3;
wait_for_state($observer, '/leaders/a', 'leads');

# Paths that are in use: who holds one keeps it, who waits behind the server waits, and a lock that
# is only kept goes.

change_setting($node, 'zklock.keep_time', '1min', $observer);
is($one->query(q(SELECT zk_lock_acquire('/kept'), zk_lock_release('/kept'))), 't|t', 'a lock');
wait_until('it is kept',
	sub { $one->query(q(SELECT zk_lock_acquire('/kept'), zk_lock_release('/kept'))); $zk->children('/kept') });
$one->query(q(SELECT zk_lock_acquire('/used')));
$two->start(q(SELECT zk_lock_acquire('/used')));
$two->wait_for_lock;
change_setting($node, 'zklock.leaders', '/leaders/a, /kept, /used', $observer);
wait_for_state($observer, '/kept', 'leads');
wait_for_state($observer, '/used', 'waits');
is($one->query(q(SELECT zk_lock_acquire('/used'))), 't', 'a holder takes its lock again');
is($one->query(q(SELECT zk_lock_release_all())), 2, '... and gives it back');
wait_for_state($observer, '/used', 'leads');
ok(!$two->is_done, '... and who waits behind the server waits');
like($observer->query(q(SELECT zk_lock_token('/used'))), qr/^ERROR:  55000/,
	'... and no other backend has a token');
change_setting($node, 'zklock.hosts', $zk->hosts . ',' . $zk->hosts, $observer);
is($two->result, 't', '... but not if the session has to end');
is($two->query(q(SELECT zk_lock_release_all())), 1, '... which waits for the lock');
wait_for_state($observer, $_, 'leads') for qw(/used /kept /leaders/a);

# A session that is to end, and in which somebody holds a lock: the server stays in its queues.

my $elsewhere =
  new_node('elsewhere', $zk->hosts, shared_preload_libraries => 'zklock', OWN_SESSION);
my $rival = ZkTest->new($elsewhere);
$rival->query(q(SELECT zk_lock_acquire('/leaders/b')));
change_setting($node, 'zklock.leaders', '/leaders/a, /leaders/b', $observer);
wait_for_state($observer, '/leaders/b', 'waits');
$one->query(q(SELECT zk_lock_acquire('/held')));
change_setting($node, 'zklock.hosts', $zk->hosts, $observer);
wait_until('the session is to end',
	sub { $observer->query('SELECT reload_pending FROM zk_server_status') eq 't' });
$rival->query('SELECT zk_lock_release_all()');
wait_for_state($observer, '/leaders/b', 'leads');
is($observer->query('SELECT reload_pending FROM zk_server_status'), 't',
	'a server becomes the leader in a session that is to end');
$rival->start(q(SELECT zk_lock_acquire('/leaders/b')));
$rival->wait_for_lock;
$one->query('SELECT zk_lock_release_all()');
is($rival->result, 't', '... whose end is that of its term');
$rival->query('SELECT zk_lock_release_all()');
wait_for_state($observer, '/leaders/b', 'leads');
$elsewhere->stop;

# A backend that asks while the terms end does not keep the session, in which the server would
# lead nowhere. It delays its request for half of its time at most, so it gets more.

my $proxy = ZkProxy->new($zk->hosts);
$two->query(q(SET zklock.connect_timeout = '1min'));
change_setting($node, 'zklock.hosts', $proxy->hosts, $observer);
wait_until('the session has another server', sub { $proxy->accepted > 0 });
wait_for_state($observer, $_, 'leads') for qw(/leaders/a /leaders/b);
$one->query(q(SELECT zk_lock_acquire('/held')));
my $size = -s $node->logfile;
change_setting($node, 'zklock.hosts', $proxy->hosts . ',' . $proxy->hosts, $observer);
wait_until('it waits for the lock', sub {
	substr(slurp_file($node->logfile), $size) =~ /session wait until no lock is held/ });
$proxy->mark;
$proxy->rule(dir => 's2c', op => 'delete', path => '/leaders/', action => 'hold', pings => 1);
$one->query('SELECT zk_lock_release_all()');
wait_until('the terms end', sub { grep { $_->{op} eq 'delete' && $_->{path} =~ m{^/leaders/} } $proxy->requests });
$two->start(q(SELECT zk_lock_acquire('/asks')));
wait_until('the backend asks in this session, or it ends', sub {
	grep { $_->{op} eq 'closeSession' || ($_->{path} // '') =~ m{^/asks/} } $proxy->requests });
$proxy->release;
is($two->result, 't', 'a backend that asks as terms end');
wait_for_state($observer, $_, 'leads') for qw(/leaders/a /leaders/b);
is($two->query(q(SELECT zk_lock_release_all())), 1, '... and the server leads again while it has its lock');

# 64 paths, and no room

my @paths = map { "/many/$_" } 1 .. 64;
change_setting($node, 'zklock.leaders', join(',', @paths), $observer);
wait_until('the server leads at each',
	sub { $observer->query(q(SELECT count(*) FROM zk_leaders WHERE state = 'leads')) == 64 });
pass('64 paths');
change_setting($node, 'zklock.leaders', '', $observer);
wait_until('it leads nowhere', sub { $observer->query('SELECT count(*) FROM zk_leaders') == 0 });
$one->query(q(SELECT zk_lock_acquire('/room/' || i) FROM generate_series(1, 200) i));
change_setting($node, 'zklock.leaders', '/leaders/a', $observer);
wait_until('there is no room', sub { slurp_file($node->logfile) =~ /There is no room in shared memory/ });
is($one->query(q(SELECT zk_lock_release_all())), 200, 'without room in shared memory, it waits');
wait_for_state($observer, '/leaders/a', 'leads');

# ... but not for what is only kept, and for a minute

change_setting($node, 'zklock.leaders', '', $observer);
wait_until('it leads nowhere', sub { $observer->query('SELECT count(*) FROM zk_leaders') == 0 });
wait_until('locks are kept', sub {
	$one->query(q(SELECT zk_lock_acquire('/kept/' || i), zk_lock_release('/kept/' || i)
		FROM generate_series(1, 50) i));
	$observer->query('SELECT kept FROM zk_server_status') == 50 });
is($one->query(q(SELECT count(zk_lock_acquire('/room/' || i)) FROM generate_series(1, 150) i)), 150,
	'held and kept locks take all the room');
is($observer->query('SELECT kept, unlisted FROM zk_server_status'), '50|0', '... together');
my $kept_at = time();
change_setting($node, 'zklock.leaders', '/leaders/a', $observer);
wait_for_state($observer, '/leaders/a', 'leads');
cmp_ok(time() - $kept_at, '<', 55, '... and a leader gets it before they are given up anyway');
$one->query('SELECT zk_lock_release_all()');

# Prefixes

change_setting($node, 'zklock.path_prefix', '/leaders', $observer);
change_setting($node, 'zklock.leaders', '/leaders/a, /outside', $observer);
wait_until('it is said',
	sub { slurp_file($node->logfile) =~ m{this server does not campaign for "/outside"} });
is($observer->query('SELECT path FROM zk_leaders'), '/leaders/a', 'a path outside of the prefix');
change_setting($node, 'zklock.path_prefix', '', $observer);
change_setting($node, 'zklock.leaders', '/leaders/a, /leaders/b', $observer);
wait_for_state($observer, '/leaders/b', 'leads');

# A role

$observer->query(q(CREATE ROLE nobody LOGIN; CREATE ROLE confined LOGIN;
	ALTER ROLE confined SET zklock.path_prefix = '/leaders/b'));
{
	local $ENV{PGUSER} = 'nobody';
	my $role = ZkTest->new($node);

	is($role->query(q(BEGIN; SELECT zk_leads('/leaders/a'), zk_leader_guard('/leaders/a') > 0; COMMIT)),
		't|t', 'a role can ask, and guard its transactions');
	like($role->query(q(SELECT zk_leader_resign('/leaders/a'))), qr/^ERROR:  42501/m, '... not resign');
	like($role->query(q(SET zklock.leaders = '')), qr/^ERROR:  55P02/m, '... nor set anything');
	like($role->query(q(BEGIN; SELECT zk_leader_guard('/leaders/a'); SELECT zk_lock_fence('/leaders/a');
		ROLLBACK)), qr/^\d+\n\d+$/, '... but fence');

	# A transaction that stays open does not keep the term from its end.
	$role->query(q(BEGIN; SELECT zk_leader_guard('/leaders/a')));
	is($observer->query(q(SELECT zk_leader_resign('/leaders/a'))), 't', '... and keeps nobody from the end');
	like($role->query('SELECT 1'), qr/^ERROR:  40001/m, '... of its term');
}
{
	local $ENV{PGUSER} = 'confined';
	my $role = ZkTest->new($node);

	like($role->query(q(SELECT zk_leads('/leaders/a'))), qr/^ERROR:  42501/m, 'a role with a prefix');
	like($role->query(q(SELECT zk_leader_guard('/leaders/a'))), qr/^ERROR:  42501/m, '... cannot guard');
}

done_testing();
