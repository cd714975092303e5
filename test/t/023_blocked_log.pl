# A backend is blocked because the server log does not accept its lines, while
# its lock is granted, its session ends and ZooKeeper goes away: it learns of
# all events at once.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

# Fill freed memory with a pattern, so that a use of it is noticed.
$ENV{MALLOC_PERTURB_} = 165;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node(
	'main', $zk->hosts,
	logging_collector => 'on',
	log_lock_waits => 'on',
	deadlock_timeout => '2s');
my $rival = ZkTest->new(new_node('other', $zk->hosts));

# The logging collector
my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
my ($logger) =
  `ps --ppid $postmaster -o pid=,args=` =~ /^ *(\d+) postgres: .*logger/m;

# Is the backend blocked in a write to the log?
sub is_stuck
{
	my ($session) = @_;

	return slurp_file("/proc/${\ $session->pid}/wchan") =~ /pipe/;
}

my %asked = (
	'many locks' => q(zk_lock_acquire_all('{/busy/1, /busy/2}')),
	'a semaphore' => q(zk_semaphore_acquire('/busy', 1)));
my %first = ('many locks' => '/busy/1', 'a semaphore' => '/busy/locks');

for my $what (sort keys %asked)
{
	my $session = ZkTest->new(
		$node,
		'zklock.hosts' => $proxy->hosts,
		'zklock.session_timeout' => '1s',
		'zklock.connect_timeout' => '2s');
	my $writer = ZkTest->new($node);

	$rival->query("SELECT zk_lock_acquire('$first{$what}')");
	$session->start("SELECT $asked{$what}");
	wait_for_queue($zk, $first{$what}, $rival, $session);
	kill('STOP', $logger);
	$writer->start(q(DO $$ BEGIN RAISE LOG '%', repeat('x', 1000000); END $$));
	wait_until('the pipe to the log is full', sub { is_stuck($writer) });
	wait_until('the session blocks in a log message', sub { is_stuck($session) });

	$proxy->mark;
	$rival->query("SELECT zk_lock_release('$first{$what}')");
	$proxy->wait_frame(dir => 's2c', op => 'event');
	my ($id) = values %{ $zk->owners($first{$what}) };
	$proxy->mark;
	$proxy->hold;
	wait_until('the session is over', sub { !grep { $_ eq $id } $zk->sessions });
	$proxy->release;
	$proxy->wait_frame(dir => 's2c', op => 'connect');
	$proxy->refuse;
	kill('CONT', $logger);

	like($session->result, qr/^ERROR:  080/m,
		"$what: backend gives up when it learns of all events");
	is($writer->result, '', '... and the server still works');
	is($session->query('SELECT count(*) FROM zk_locks'),
		'0', '... and no lock is held');
	$proxy->accept;
	$session->query('RESET zklock.connect_timeout');
	is($session->query("SELECT $asked{$what}"),
		't', '... and the same request succeeds later');
	$_->close for $session, $writer;
	wait_for_queue($zk, $first{$what});
}

# Otherwise the logger could not end.
END
{
	kill('CONT', $logger) if $logger;
}

done_testing();
