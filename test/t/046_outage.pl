# What an outage costs: connects, log lines and processor time; and what it must
# not cost: a lock, or a place in the queue.

use strict;
use warnings;

use POSIX qw(sysconf _SC_CLK_TCK);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# So long that there is time to start ZooKeeper again on a busy machine
my $node = new_node('main', $proxy->hosts, 'zklock.session_timeout' => '60s');

# Who keeps the sessions in ZooKeeper that these sessions have
sub keepers
{
	my %pids = map { keeper_of($_, $node) => 1 } @_;

	return keys %pids;
}

# The lines that processes have left in the log since $log_from, but for statements
my $log_from = 0;

sub logged
{
	my $pids = join('|', @_);
	my @lines = substr(slurp_file($node->logfile), $log_from) =~
	  /\[(?:$pids)\] [^\n]*[A-Z]+:  (?!statement:)[^\n]*/g;

	return @lines;
}

# The seconds of processor time that processes have used
sub cpu_seconds
{
	my $ticks = 0;

	for my $pid (@_)
	{
		my $stat = slurp_file("/proc/$pid/stat");
		my @fields = split(' ', $stat =~ s/.*\) //r);

		$ticks += $fields[11] + $fields[12];
	}
	return $ticks / sysconf(_SC_CLK_TCK);
}

# Waits until nobody has tried to connect for some seconds.
sub wait_for_quiet
{
	my ($before, $since) = (-1, 0);

	wait_until(
		'nobody tries to connect',
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
wait_until('all are back',
	sub {
		my %back = map { $_->{session} => 1 }
		  grep { $_->{op} eq 'connect' && $_->{dir} eq 's2c' } $proxy->trace;

		return keys %back == @keepers;
	});
is_deeply([ session_ids(@idle) ],
	\@before, 'a cut costs idle backends no session');

# A node that is to be deleted still would be something to do.
wait_for_queue($zk, '/idle');
wait_for_calm($node, $zk) if server_mode();
$proxy->wait_idle;
$accepted = $proxy->accepted;
$proxy->refuse;
$proxy->cut;
wait_for_quiet();
cmp_ok($proxy->accepted - $accepted,
	'<=', 3 * @keepers, 'in an outage they soon stop to ask for a server');
my @all = (@keepers, map { $_->pid } @idle);
my $cpu = cpu_seconds(@all);
wait_for_quiet();
cmp_ok(cpu_seconds(@all) - $cpu, '<=', 0.2, '... and use no processor time');

$proxy->accept;
is_deeply(
	[ map { $_->query(q(SELECT zk_lock_acquire('/idle'), zk_lock_release_all())) }
		  @idle ],
	[ ('t|1') x @idle ],
	'... but find it again when they have something to do');
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
wait_until('an outage has lasted for a while', sub { time() > $began + 4 });
my $attempts = ($proxy->accepted - $accepted) / @keepers;
my $seconds = time() - $began;
cmp_ok($attempts, '<=', 2 * $seconds + 8,
	'who holds or waits asks for a server again and again, in moderation');
cmp_ok($attempts, '>=', 3, '... but does not give up');

$zk->stop;
$zk->start;
$proxy->accept;
wait_until('they are back',
	sub {
		return $line[0]->query('SELECT state FROM zk_session()') eq 'connected'
		  && !grep { logged($_) < 2 } @keepers;
	});
is_deeply($zk->owners('/kept'), $owners,
	'all keep their place in an outage with a restart');
for my $i (0 .. $#line)
{
	is($line[$i]->result, 't', "... number $i gets the lock") if $i > 0;
	is($line[$i]->query(q(SELECT zk_lock_release('/kept'))), 't', '... and releases it');
}

for my $pid (@keepers)
{
	my @lines = logged($pid);

	cmp_ok(scalar(@lines), '<=', 2, "$pid logs no more than a loss and a return");
	like($lines[-1],
		qr/is back after \d+ ms, with server \Q${\ $proxy->hosts}\E$/,
		'... and for how long it was away, and where it is now');
	note($_) for @lines;
}
done_testing();
