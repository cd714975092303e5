# The cost of an outage in connects, log lines and CPU time. No lock and no
# place in the queue may be lost.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# The timeout leaves time to restart ZooKeeper on a busy machine. Waits are logged by
# default since PostgreSQL 19.
my $node = new_node('main', $proxy->hosts, 'zklock.session_timeout' => '60s',
	log_lock_waits => 'off');

# Returns the processes that have the ZooKeeper sessions of these sessions.
sub keepers
{
	my %pids = map { keeper_of($_, $node) => 1 } @_;

	return keys %pids;
}

# Returns the lines that processes have logged since $log_from, except
# statements.
my $log_from = 0;

sub logged
{
	my $pids = join('|', @_);
	my @lines = substr(slurp_file($node->logfile), $log_from) =~
	  /\[(?:$pids)\] [^\n]*[A-Z]+:  (?!statement:)[^\n]*/g;

	return @lines;
}

# Waits until no client has tried to connect for some seconds.
sub wait_for_quiet
{
	my ($before, $since) = (-1, 0);

	wait_until(
		'no client tries to connect',
		sub {
			my $now = $proxy->accepted;

			($before, $since) = ($now, time()) if $now != $before;
			return time() - $since >= 3;
		},
		60);
	return;
}

sub session_ids
{
	return map { $_->query('SELECT session_id FROM zk_session()') } @_;
}

# Idle backends

my @idle = map { ZkTest->new($node) } (1 .. 20);
$_->query(q(SELECT zk_lock_acquire('/idle'), zk_lock_release_all())) for @idle;
my @before = session_ids(@idle);
my @keepers = keepers(@idle);

my $accepted = $proxy->accepted;
$proxy->mark;
$proxy->cut;
wait_until('all sessions are connected again',
	sub {
		my %back = map { $_->{session} => 1 }
		  grep { $_->{op} eq 'connect' && $_->{dir} eq 's2c' } $proxy->trace;

		return keys %back == @keepers;
	});
is_deeply([ session_ids(@idle) ],
	\@before, 'idle backends keep their sessions after a cut');

# A node that is still to be deleted would require a connection.
wait_for_queue($zk, '/idle');
wait_until_idle($node, $zk) if server_mode();
$proxy->wait_idle;
$accepted = $proxy->accepted;
$proxy->refuse;
$proxy->cut;
wait_for_quiet();
cmp_ok($proxy->accepted - $accepted,
	'<=', 3 * @keepers, 'idle sessions soon stop to connect in an outage');
my @all = (@keepers, map { $_->pid } @idle);
my $cpu = cpu_seconds(@all);
wait_for_quiet();
cmp_ok(cpu_seconds(@all) - $cpu, '<=', 0.2, '... and use no CPU time');

$proxy->accept;
is_deeply(
	[ map { $_->query(q(SELECT zk_lock_acquire('/idle'), zk_lock_release_all())) }
		  @idle ],
	[ ('t|1') x @idle ],
	'... and connect again with the next request');
cmp_ok(scalar(logged(@all)), '<=', 3 * @keepers, '... with few lines in the log');
$_->close for @idle;

# Holders and waiters

my @line = map { ZkTest->new($node) } (1 .. 4);
for my $i (0 .. $#line)
{
	$line[$i]->start(q(SELECT zk_lock_acquire('/kept')));
	wait_for_queue($zk, '/kept', @line[ 0 .. $i ]);
}
$line[0]->result;
@keepers = keepers(@line);
$log_from = -s $node->logfile;
my $owners = $zk->owners('/kept');

$proxy->refuse;
$proxy->cut;
$accepted = $proxy->accepted;
my $began = time();
wait_until('the outage has lasted for some seconds', sub { time() > $began + 4 });
my $attempts = ($proxy->accepted - $accepted) / @keepers;
my $seconds = time() - $began;
cmp_ok($attempts, '<=', 2 * $seconds + 8,
	'holders and waiters try to connect at a limited rate');
cmp_ok($attempts, '>=', 3, '... but do not give up');

$zk->stop;
$zk->start;
$proxy->accept;
wait_until('all sessions are connected again',
	sub {
		return $line[0]->query('SELECT state FROM zk_session()') eq 'connected'
		  && !grep { logged($_) < 2 } @keepers;
	});
is_deeply($zk->owners('/kept'), $owners,
	'all keep their places in an outage with a restart');
for my $i (0 .. $#line)
{
	is($line[$i]->result, 't', "... waiter $i gets the lock") if $i > 0;
	is($line[$i]->query(q(SELECT zk_lock_release('/kept'))), 't', '... and releases it');
}

for my $pid (@keepers)
{
	my @lines = logged($pid);

	cmp_ok(scalar(@lines), '<=', 2, "process $pid logs only the loss and the reconnect");
	like($lines[-1],
		qr/is back after \d+ ms, with server \Q${\ $proxy->hosts}\E$/,
		'... with the duration and the server');
	note($_) for @lines;
}
done_testing();
