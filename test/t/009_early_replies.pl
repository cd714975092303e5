# ZooKeeper's replies arrive before zklock's calls of its client library return, as they do if
# the thread that calls has to wait for a processor: nothing that the callbacks have freed is
# used after that. Freed memory has other contents at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $library = build_module('early_replies');

$ENV{GLIBC_TUNABLES} = 'glibc.malloc.tcache_count=0:glibc.malloc.perturb=90';
my $node = new_node('main', $zk->hosts, shared_preload_libraries => "zklock,$library");
my ($first, $second) = map { ZkTest->new($node) } 1 .. 2;

for my $sql (
	q(SELECT zk_lock_acquire('/a'), zk_lock_release('/a')),
	q(SELECT zk_lock_acquire('/a', mode => 'shared'), zk_lock_release('/a', 'shared')),
	q(SELECT zk_lock_acquire('/s', mode => 'simple'), zk_lock_release('/s', 'simple')),
	q(SELECT zk_lock_acquire_all('{/b,/c}'), zk_lock_release_all()),
	q(SELECT zk_shared_count_set('/n', 2)),
	q(SELECT zk_semaphore_acquire_counted('/sem', '/n'), zk_semaphore_release('/sem')))
{
	my $result = $first->query($sql);

	is($first->query($sql), $result, $sql);
}

for my $mode (qw(exclusive shared simple))
{
	for my $confirm (qw(lease always))
	{
		$first->query("BEGIN; SET LOCAL zklock.confirm_commit = '$confirm'");
		$first->query("SELECT zk_lock_guard('/$mode', mode => '$mode')");
		$first->query('COMMIT');
		is($second->query("SELECT zk_lock_acquire('/$mode', '0', '$mode')"),
			't', "a commit with a lock in mode $mode, confirmed: $confirm");
		$second->query('SELECT zk_lock_release_all()');
	}
}

# A wait, one that is given up, and one that is granted
$first->query(q(SELECT zk_lock_acquire('/w')));
is($second->query(q(SELECT zk_lock_acquire('/w', '100ms'))), 'f', 'a wait is given up');
$second->start(q(SELECT zk_lock_acquire('/w')));
$first->query(q(SELECT zk_lock_release('/w')));
is($second->result, 't', 'a wait ends with a grant');
$_->close for $first, $second;
$node->stop;
unlike(slurp_file($node->logfile), qr/terminated by signal/, 'no process has crashed');

done_testing();
