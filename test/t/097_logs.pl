# The server's log: errors of the ZooKeeper client, and waits for locks.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);

# Returns the lines of a session in the server's log that match.
sub logged
{
	my ($session, $pattern) = @_;

	return grep { /\[${\ $session->pid}\]/ && /$pattern/ }
	  split(/\n/, slurp_file($node->logfile));
}

# The client library logs each attempt to connect. These many lines are debug
# messages.
my $nowhere =
  join(',', map { '127.0.0.1:' . ZkServer::free_port() } (1 .. 30));
for my $level (qw(warning debug1))
{
	my $session = ZkTest->new($node,
		'zklock.hosts' => $nowhere,
		'zklock.connect_timeout' => '2s',
		log_min_messages => $level);
	my $answer;
	my $seconds = seconds_of(
		sub { $answer = $session->query(q(SELECT zk_lock_acquire('/log'))) });
	my $lines = logged($session, qr/DEBUG:  ZooKeeper client: .*127\.0\.0\.1:/);

	like($answer, qr/^ERROR:  08001:/m, "no server listens, log level $level");
	unlike($answer, qr/ZooKeeper client/,
		"... the backend's client gets no lines of the library");
	if ($level eq 'warning')
	{
		is(scalar(logged($session, qr/ZooKeeper client/)),
			0, '... and the attempts are not logged');
		next;
	}
	cmp_ok($lines, '>', 0, 'attempts to connect are logged');
	cmp_ok($lines, '<=', 10 * ($seconds + 2),
		'... with no more than ten lines a second');
	ok( wait_until(
			'some lines are suppressed',
			sub {
				return 1
				  if logged($session,
					qr/DETAIL:  \d+ lines before this one were suppressed/);
				$session->query(q(SELECT zk_lock_acquire('/log')));
				return 0;
			}),
		'... and the number of suppressed lines');
}

# Other messages of the library are logged at zklock.log_level.
for my $level (qw(log warning debug1))
{
	my $session = ZkTest->new($node,
		'zklock.auth' => 'nonsense:x',
		'zklock.log_level' => $level);
	my $answer = $session->query(q(SELECT zk_lock_acquire('/log')));
	my $line = qr/ZooKeeper client: .*Authentication scheme nonsense failed/;

	# The error can be visible a moment before the library logs it; then this
	# statement or a later one reports the line.
	wait_until(
		'the line is logged',
		sub {
			$answer .= "\n" . $session->query('SELECT state FROM zk_session()');
			return $level eq 'debug1' || logged($session, $line);
		});

	like($answer, qr/^ERROR:  28000:/m, "bad authentication, log level $level");
	is(scalar(logged($session, qr/${\ uc($level)}:  $line/)),
		$level eq 'debug1' ? 0 : 1, '... is logged once at its level, or not at all');
	is(scalar(() = $answer =~ /^WARNING:.*$line/mg),
		$level eq 'warning' ? 1 : 0, '... and sent to the client if it is a warning');
}

# log_lock_waits

is( $node->safe_psql('postgres', 'SHOW log_lock_waits'),
	$node->safe_psql('postgres', 'SHOW server_version_num') >= 190000 ? 'on' : 'off',
	'waits are logged by default since PostgreSQL 19');

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
is(scalar(logged($waiter, qr/acquired/)), 0, '... while it continues');
$holder->query(q(SELECT zk_lock_release('/log')));
is($waiter->result, 't', '... the lock is granted');
is( scalar(
		logged($waiter, qr/LOG:  process ${\ $waiter->pid} acquired $what/)),
	1,
	'... and the grant is logged, too');
is(scalar(logged($waiter, qr/still waiting/)), 1, '... each once');

# By then the backend knows the nodes ahead: the holder, or the last of
# several.
my @line = ($waiter,
	map { ZkTest->new($node, log_lock_waits => 'on', deadlock_timeout => '3s') }
	  (1, 2));
for my $i (1, 2)
{
	$line[$i]->start(q(SELECT zk_lock_acquire('/log')));
	wait_for_queue($zk, '/log', @line[ 0 .. $i ]);
}
for my $i (1, 2)
{
	my $detail =
	  ('', 'The lock is held by', '2 are ahead\.  The last of them is')[$i];

	wait_until('the wait is logged',
		sub { logged($line[$i], qr/LOG:  .*still waiting/) });
	ok( wait_until(
			'its detail is logged, too',
			sub {
				logged($line[$i],
					qr/DETAIL:  $detail host=\S+ port=\d+ pid=${\ $line[$i - 1]->pid} .*\(node "_c_.*"\)\.$/
				);
			},
			10),
		"log shows the node ahead of waiter number $i");
}

done_testing();
