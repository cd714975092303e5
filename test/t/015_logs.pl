# What is in the server's log: the ZooKeeper client's troubles, and waits for
# locks.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
my $nowhere = '127.0.0.1:' . ZkServer::free_port();

# The lines of a session in the server's log that match.
sub logged
{
	my ($session, $pattern) = @_;

	return grep { /\[${\ $session->pid}\]/ && /$pattern/ }
	  split(/\n/, slurp_file($node->logfile));
}

# A client with short timeouts tries some sixty times a second to connect.
sub knock
{
	my ($level) = @_;
	my $session = ZkTest->new($node,
		'zklock.hosts' => $nowhere,
		'zklock.session_timeout' => '1s',
		'zklock.connect_timeout' => '2s',
		'zklock.log_level' => $level);
	my $answer;
	my $seconds = seconds_of(
		sub { $answer = $session->query(q(SELECT zk_lock_acquire('/log'))) });

	like($answer, qr/^ERROR:  08001:/m, "nobody listens, log level $level");
	return ($session, $answer, $seconds);
}

my ($session, $answer, $seconds) = knock('log');
my $lines = logged($session, qr/LOG:  ZooKeeper client: .*\Q$nowhere\E/);
cmp_ok($lines, '>', 0, 'what the client says is logged');
cmp_ok($lines, '<=', 10 * ($seconds + 2),
	'... no more than ten lines a second');
ok(logged($session, qr/DETAIL:  \d+ lines before this one were suppressed/),
	'... and how many more there were');
unlike($answer, qr/ZooKeeper client/, '... but this client is not told');

($session, $answer) = knock('warning');
ok(logged($session, qr/WARNING:  ZooKeeper client: /),
	'it is logged with the level that is set');
like($answer, qr/^WARNING:.* ZooKeeper client: /m,
	'... which may be one that this client is told');

($session, $answer) = knock('debug1');
is(scalar(logged($session, qr/ZooKeeper client/)),
	0, '... or one that is not logged');

# log_lock_waits

my $holder = ZkTest->new($node);
my $waiter = ZkTest->new($node,
	log_lock_waits => 'on',
	deadlock_timeout => '10ms');
my $what = qr/ZooKeeper lock on "\/log" after \d+\.\d{3} ms/;

$holder->query(q(SELECT zk_lock_acquire('/log')));
$waiter->start(q(SELECT zk_lock_acquire('/log')));
ok( wait_until(
		'the wait is logged',
		sub {
			logged($waiter,
				qr/LOG:  process ${\ $waiter->pid} still waiting for $what/);
		}),
	'a wait is logged after deadlock_timeout');
is(scalar(logged($waiter, qr/acquired/)), 0, '... while it goes on');
$holder->query(q(SELECT zk_lock_release('/log')));
is($waiter->result, 't', '... the lock is granted');
is( scalar(
		logged($waiter, qr/LOG:  process ${\ $waiter->pid} acquired $what/)),
	1,
	'... and that is logged, too');
is(scalar(logged($waiter, qr/still waiting/)), 1, '... each once');

done_testing();
