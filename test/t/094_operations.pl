# The statements of docs/operations.md: updates, other ZooKeeper servers,
# alerts, and removal, in both modes.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Docs;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

# Longer than any wait for a lock in this test
use constant LONG => '10min';

my $page = slurp_file("$FindBin::RealBin/../../docs/operations.md");
my $exporter =
  slurp_file("$FindBin::RealBin/../../sql/monitoring/postgres_exporter.yml");

# Alerts use existing metrics.
my %metric;
for my $part (split(/^(?=\w+:$)/m, $exporter))
{
	my ($prefix) = $part =~ /^(\w+):$/m or next;

	$metric{"${prefix}_$_"} = 1 for $part =~ /^    - (\w+):$/mg;
}
my @used = $page =~ /\b(zklock_\w+)/g;
cmp_ok(scalar(@used), '>', 5, 'page has alerts');
is_deeply([ grep { !$metric{$_} } @used ], [], '... which use existing metrics');

# Runs the blocks of a section.
sub run_section
{
	my ($section, $new, %session) = @_;

	for my $block (sql_blocks('docs/operations.md', $section))
	{
		for my $statement (@{ $block->{statements} })
		{
			my ($sql, $expected) = @$statement;

			$sql =~ s/'new1:.*?'/"'" . $new->hosts . "'"/e if $new;
			run_documented($session{ $block->{as} }, [ $sql, $expected ]);
			next if $sql !~ /pg_reload_conf/;
			for my $session (values %session)
			{
				wait_until('the setting is in effect',
					sub { $session->query('SHOW zklock.hosts') eq $new->hosts });
			}
		}
	}
	return;
}

for my $mode (qw(backend server))
{
	my ($old, $new) = map { ZkServer->new(config => { maxSessionTimeout => 600_000 })->start } 1, 2;
	my %conf = (
		shared_preload_libraries => 'zklock',
		'zklock.session_mode' => $mode,
		'zklock.session_timeout' => LONG);
	my $node = new_node("main_$mode", $old->hosts, %conf);
	my $other = new_node("other_$mode", $old->hosts, %conf);
	my ($admin, $client) = map { ZkTest->new($node) } 1, 2;
	my $next = ZkTest->new($other);

	# A restart
	run_section('A new version of the package', undef, 'the administrator' => $admin);
	$client->query(q(SELECT zk_lock_acquire('/held')));
	$next->start(q(SELECT zk_lock_acquire('/held')));
	wait_for_queue($old, '/held', $client, $next);
	$node->restart;
	is($next->result, 't', "$mode: another server gets the lock after a restart");
	is($next->query('SELECT zk_lock_release_all()'), 1, '... and releases it');
	$_->close for $admin, $client, $next;
	($admin, $client) = map { ZkTest->new($node) } 1, 2;

	# Another ensemble, while the database has a fence with a token of the old
	# one
	is($client->query(
			q(SELECT zk_lock_acquire('/shop/product_42'), zk_lock_fence('/shop/product_42') > 0)),
		't|t', 'lock is acquired and fenced');
	$client->query('SELECT zk_lock_release_all()');
	$node->safe_psql('postgres',
		q(UPDATE zk_lock_fences SET token = token + (1::bigint << 40)));
	wait_until_idle($node, $old, '/held', '/shop/product_42');
	run_section(
		'Other ZooKeeper servers', $new,
		'the administrator' => $admin,
		'a client' => $client);
	ok(scalar(grep { $_ eq 'limits' } $new->children('/')), '... in the new ensemble');

	# A server that still uses the old ensemble does not notice.
	is($client->query(q(SELECT zk_lock_acquire('/shop/split'))),
		't', 'lock is held in one ensemble');
	$next = ZkTest->new($other);
	is($next->query(q(SELECT zk_lock_acquire('/shop/split'))),
		't', '... and free in the other');
	$_->query('SELECT zk_lock_release_all()') for $client, $next;

	run_section('Alerts', undef, 'the administrator' => $admin) if $mode eq 'server';

	# Removal
	run_section(
		'What DROP EXTENSION leaves', undef,
		'the administrator' => $admin,
		'a client' => $client);
	wait_until('DISCARD ALL releases the lock',
		sub { !$new->children('/shop/product_7') });
	like($admin->query('SHOW zklock.hosts'), qr/^\d/, 'library is still loaded');
	worker_of($node);
	$admin->query('CREATE EXTENSION zklock');
	is($admin->query('SELECT count(*) FROM zk_lock_fences'),
		0, 'new extension has no fences');
	$client->query(q(BEGIN; SELECT zk_lock_guard('/shop/product_7')));
	$admin->query('DROP EXTENSION zklock');
	is(scalar(() = $new->children('/shop/product_7')),
		1, 'lock is held without the extension');
	is($client->query('COMMIT'), '', '... until the end of the transaction');
	wait_until('the lock is released', sub { !$new->children('/shop/product_7') });
	$_->close for $admin, $client, $next;
	$_->stop for $node, $other, $old, $new;
}

done_testing();
