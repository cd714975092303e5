# Backends that are cancelled or terminated at random moments while they take a
# lock: none hangs, and no node is left.
#
# Shortened unless ZKLOCK_LONG is set: 60 rounds of each kind, not 200.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use Time::HiRes qw(sleep);
use ZkServer;
use ZkTest;

use constant ROUNDS => sample_of(200, 60);

# A timeout so long that no node disappears because its session expires.
use constant TIMEOUT => ('zklock.session_timeout' => '60s');

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
my $control = ZkTest->new($node);

# A backend that acquires and releases one of the locks in a loop
my $rival = ZkTest->new($node, TIMEOUT);
$rival->start(q(
	DO $$ BEGIN
		LOOP
			PERFORM zk_lock_acquire('/storm/contended');
			PERFORM pg_sleep(0.001);
			PERFORM zk_lock_release('/storm/contended');
		END LOOP;
	END $$));

# Returns the seconds that $times acquires of a lock take.
sub seconds_to_get
{
	my ($session, $path, $times) = @_;

	return seconds_of(
		sub {
			$session->query(
				"SELECT zk_lock_acquire('$path'), zk_lock_release_all()")
			  for 1 .. $times;
		});
}

# Lets a backend acquire a lock, which takes up to $seconds, calls the function
# $what on it before, during or after that, and returns the result of the
# statement.
sub interrupt
{
	my ($victim, $path, $seconds, $what) = @_;

	$victim->start("SELECT zk_lock_acquire('$path')");
	sleep(rand(2 * $seconds));
	$control->query("SELECT $what(${\ $victim->pid})");
	return $victim->result;
}

# Waits until only the rival has a node.
sub wait_for_victims
{
	for my $path ('/storm/free', '/storm/contended')
	{
		wait_until("no victim has a node at $path",
			sub { !grep { $_ != $rival->pid } queue($zk, $path) });
	}
	return;
}

# Not before the servers have chosen their ports, or concurrent runs would try
# the same ones.
srand(42);

# pg_cancel_backend

my $victim = ZkTest->new($node, TIMEOUT);
my $first_time = seconds_to_get($victim, '/storm/free', 1);
my @locks = map { [ $_, seconds_to_get($victim, $_, 20) / 20 ] }
  ('/storm/free', '/storm/contended');
my $session_of = q(SELECT session_id FROM zk_session());
my $session = $victim->query($session_of);
my %ended = (t => 0, cancelled => 0);

for my $round (1 .. ROUNDS)
{
	my $answer =
	  interrupt($victim, @{ $locks[ $round % 2 ] }, 'pg_cancel_backend');

	$answer = 'cancelled' if $answer =~ /^ERROR:  57014:/;
	$ended{$answer}++;
	my $alive = $victim->query('SELECT 1 FROM zk_lock_release_all()');
	$ended{"then $alive"}++ if $alive ne '1';
}
note("$ended{t} acquires succeeded, $ended{cancelled} were cancelled");
is($ended{t} + $ended{cancelled},
	ROUNDS, 'every statement succeeds or is cancelled')
  || diag(explain(\%ended));
is(keys(%ended), 2, '... and the backend can run more statements')
  || diag(explain(\%ended));
cmp_ok($ended{t}, '>', 0, 'some statements succeed');
cmp_ok($ended{cancelled}, '>', 0, 'some statements are cancelled');
wait_for_victims();
is($victim->query($session_of),
	$session, 'no node is left, and the ZooKeeper session is the same');
$victim->close;

# pg_terminate_backend

for my $round (1 .. ROUNDS)
{
	my ($path, $seconds) = @{ $locks[ $round % 2 ] };
	my $connected = $round % 4 < 2;

	$victim = ZkTest->new($node, TIMEOUT, application_name => 'victim');
	seconds_to_get($victim, '/storm/free', 1) if $connected;
	interrupt($victim, $path, $connected ? $seconds : $first_time,
		'pg_terminate_backend');
	$victim->close;
}

my $seconds = seconds_of(
	sub {
		ok( $node->poll_query_until(
				'postgres',
				q(SELECT count(*) = 0 FROM pg_stat_activity
				  WHERE application_name = 'victim')),
			'every terminated backend ends');
		wait_for_victims();
	});
cmp_ok($seconds, '<', 30, 'terminated backends leave no node');

ok(!$rival->is_done, "rival is not affected by other backends' cancellations");
$control->query("SELECT pg_cancel_backend(${\ $rival->pid})");
like($rival->result, qr/^ERROR:  57014:/, 'rival runs until it is cancelled itself');
$rival->query(q(SELECT zk_lock_release_all()));
wait_for_queue($zk, '/storm/contended');

done_testing();
