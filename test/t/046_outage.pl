# What an outage costs: connects, log lines and processor time; and what it must
# not cost: a lock, or a place in the queue.

use strict;
use warnings;

use POSIX qw(sysconf _SC_CLK_TCK);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $proxy->hosts, 'zklock.session_timeout' => '10s');

# The lines that sessions left in the log, but for their statements
sub logged
{
	my @sessions = @_;
	my $pids = join('|', map { $_->pid } @sessions);
	my @lines = slurp_file($node->logfile) =~
	  /\[(?:$pids)\] [^\n]*[A-Z]+:  (?!statement:)[^\n]*/g;

	return @lines;
}

# The seconds of processor time that sessions' backends have used
sub cpu_seconds
{
	my @sessions = @_;
	my $ticks = 0;

	for my $session (@sessions)
	{
		my $stat = slurp_file("/proc/${\ $session->pid}/stat");
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

my $accepted = $proxy->accepted;
$proxy->mark;
$proxy->cut;
wait_until('all are back',
	sub { (grep { $_->{op} eq 'connect' && $_->{dir} eq 's2c' } $proxy->trace) == @idle }
);
is_deeply([ session_ids(@idle) ],
	\@before, 'a cut costs idle backends no session');

$proxy->wait_idle;
$accepted = $proxy->accepted;
$proxy->refuse;
$proxy->cut;
wait_for_quiet();
cmp_ok($proxy->accepted - $accepted,
	'<=', 3 * @idle, 'in an outage they soon stop to ask for a server');
my $cpu = cpu_seconds(@idle);
wait_for_quiet();
cmp_ok(cpu_seconds(@idle) - $cpu, '<=', 0.2, '... and use no processor time');

$proxy->accept;
is_deeply(
	[ map { $_->query(q(SELECT zk_lock_acquire('/idle'), zk_lock_release_all())) }
		  @idle ],
	[ ('t|1') x @idle ],
	'... but find it again when they have something to do');
cmp_ok(scalar(logged(@idle)), '<=', 3 * @idle, '... with few lines in the log');
$_->close for @idle;

# Holders and waiters

my @line = map { ZkTest->new($node) } (1 .. 4);
for my $i (0 .. $#line)
{
	$line[$i]->start(q(SELECT zk_lock_acquire('/kept')));
	wait_for_queue($zk, '/kept', @line[ 0 .. $i ]);
}
$line[0]->result;
my $owners = $zk->owners('/kept');

$proxy->refuse;
$proxy->cut;
$accepted = $proxy->accepted;
my $began = time();
wait_until('an outage has lasted for a while', sub { time() > $began + 4 });
my $attempts = ($proxy->accepted - $accepted) / @line;
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
		  && logged(@line[ 1 .. $#line ]) >= 2 * $#line;
	});
is_deeply($zk->owners('/kept'), $owners,
	'all keep their place in an outage with a restart');
for my $i (0 .. $#line)
{
	is($line[$i]->result, 't', "... number $i gets the lock") if $i > 0;
	is($line[$i]->query(q(SELECT zk_lock_release('/kept'))), 't', '... and releases it');
}

for my $i (0 .. $#line)
{
	my @lines = logged($line[$i]);

	cmp_ok(scalar(@lines), '<=', 2, "number $i logs no more than a loss and a return");
	like($lines[-1],
		qr/is back after \d+ ms, with server \Q${\ $proxy->hosts}\E$/,
		'... and for how long it was away, and where it is now');
	note($_) for @lines;
}
done_testing();
