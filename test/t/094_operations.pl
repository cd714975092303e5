# The statements of docs/operations.md: updates, other ZooKeeper servers,
# alerts, and removal, in both modes; a new version of PostgreSQL.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Child;
use Docs;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Template;
use Test::More;
use Wait;
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
my ($alerts) = $page =~ /^## Alerts\n(.*?)^## /ms;
my @used = $alerts =~ /\b(zklock_\w+)/g;
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
	my ($old, $new) = map { ZkServer->new->start } 1, 2;
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
	is($admin->query(q(SELECT context FROM pg_settings WHERE name = 'zklock.max_locks')),
		'postmaster', 'zklock.max_locks needs a restart');

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

# pg_upgrade, here to the same version of PostgreSQL
my $zk = ZkServer->new->start;
my $trigger = q(SELECT tgenabled FROM pg_trigger WHERE tgname = 'zk_fence_merge');
my $tmp = PostgreSQL::Test::Utils::tempdir_short();
my ($before, $after) = (new_node('before', $zk->hosts), PostgreSQL::Test::Cluster->new('after'));

init_node($after);
$after->append_conf('postgresql.conf', "zklock.hosts = '${\ $zk->hosts}'");
$before->safe_psql('postgres',
	q(SELECT zk_lock_acquire('/fenced'), zk_lock_fence('/fenced'); CREATE EXTENSION zklock_advisory));
my $fences = $before->safe_psql('postgres', 'TABLE zk_lock_fences');
$before->safe_psql('postgres', 'DROP EXTENSION zklock_advisory');
$before->stop;

my $bindir = `"${\ ($ENV{PG_CONFIG} // 'pg_config')}" --bindir`;
chomp($bindir);
chdir($tmp) or die "$tmp: $!\n";
Child->run(
	"$tmp/log", $Wait::timeout, "$bindir/pg_upgrade", '-b', $bindir, '-B', $bindir,
	'-d', $before->data_dir, '-D', $after->data_dir,
	'-p', $before->port, '-P', $after->port);
chdir('/');
$after->start;
is($after->safe_psql('postgres', 'TABLE zk_lock_fences'), $fences,
	'pg_upgrade keeps the fences');
is($after->safe_psql('postgres', $trigger), 'R', '... and the state of their trigger');
my $upgraded = ZkTest->new($after);
is($upgraded->query(q(SELECT zk_lock_acquire('/fenced'), zk_lock_fence('/fenced') > 0)),
	't|t', '... and a later holder is newer');
is($upgraded->query('SET client_min_messages = error; CREATE EXTENSION zklock_advisory'), '', '... and zklock_advisory can be created');

# Data that are restored without triggers
$after->command_ok([ 'pg_dump', '-Fc', '-f', "$tmp/dump", 'postgres' ], 'pg_dump succeeds');
$after->safe_psql('postgres', 'CREATE DATABASE restored');
$after->safe_psql('restored', 'CREATE EXTENSION zklock');
$after->command_ok(
	[ 'pg_restore', '--data-only', '--disable-triggers', '-d', 'restored', "$tmp/dump" ],
	'pg_restore succeeds');
is($after->safe_psql('restored', $trigger), 'O', '... and leaves the trigger off for replication');
my $restored = ZkTest->new($after);
$restored->query('\c restored');
run_section('A new version of PostgreSQL', undef, 'the administrator' => $restored);
is($restored->query($trigger), 'R', '... until the statement of the page');

# The owner of a database dumps it, with the fences.
for my $version (qw(1.0 latest))
{
	my $created = $version eq 'latest' ? '' : " VERSION '$version'";
	my $database = "owned_$version";

	$after->safe_psql('postgres', $_)
	  for "CREATE ROLE \"$database\" LOGIN", "CREATE DATABASE \"$database\" OWNER \"$database\"";
	$after->safe_psql($database, "CREATE EXTENSION zklock$created; CREATE EXTENSION zklock_advisory;"
		  . q(SELECT zk_lock_acquire('/owned'), zk_lock_fence('/owned')));
	my @dump = ('pg_dump', '-U', $database, '-f', "$tmp/$database", $database);

	if ($created)
	{
		$after->command_fails_like(\@dump, qr/permission denied for table zk_lock_fences/,
			"the owner of a database with version $version cannot dump it");
		$after->safe_psql($database, 'ALTER EXTENSION zklock UPDATE');
	}
	$after->command_ok(\@dump, '... and with the latest one can');
	like(slurp_file("$tmp/$database"), qr{^/owned\t}m, '... with the fences');
	$after->command_fails_like([ 'psql', '-U', $database, '-c', $_, $database ], qr/permission denied/, "... and cannot $_")
	  for q(DELETE FROM zk_lock_fences), q(INSERT INTO zk_lock_fences VALUES ('/x', 1, 1, 1)), q(SELECT zk_fence('/x', 1));
}
$after->safe_psql('postgres', 'CREATE ROLE visitor LOGIN');
$after->command_fails_like([ 'psql', '-U', 'visitor', '-c', 'TABLE zk_lock_fences', 'owned_latest' ],
	qr/permission denied for table zk_lock_fences/, 'another role cannot read the fences');

# A restore to a server that has not preloaded the library
my $warning = qr/WARNING:  library "zklock" is not in shared_preload_libraries/;
$after->safe_psql('postgres', 'CREATE DATABASE "restored too"');
$after->command_checks_all([ 'psql', '-X', '-f', "$tmp/owned_latest", 'restored too' ], 0, [], [$warning],
	'a restore warns if the library is not preloaded');
is($after->safe_psql('restored too', 'SELECT path FROM zk_lock_fences'), '/owned', '... and has the fences');
$after->append_conf('postgresql.conf', q(shared_preload_libraries = 'zklock'));
$after->restart;
$after->safe_psql('postgres', 'CREATE DATABASE "restored once more"');
$after->command_checks_all([ 'psql', '-X', '-f', "$tmp/owned_latest", 'restored once more' ], 0, [], [qr/^(?!.*WARNING)/s],
	'... and does not if it is');

# A copy that takes the name of its source: where are its locks?
sub path_of_lock
{
	my ($database) = @_;
	my $session = ZkTest->new($after);

	$session->query("\\connect $database");
	$session->query('SELECT pg_advisory_lock(1)');
	my $path = $session->query('SELECT path FROM zk_locks WHERE pid = pg_backend_pid()');
	$session->close;
	return $path;
}

$after->safe_psql('postgres', $_)
  for 'CREATE DATABASE shop', q(ALTER DATABASE shop SET zklock.advisory_locks = 'cluster');
$after->safe_psql('shop', 'CREATE EXTENSION zklock; CREATE EXTENSION zklock_advisory');
is(path_of_lock('shop'), '/pg_advisory/shop/1', 'a database has its locks across servers');
$after->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE shop');
is(path_of_lock('copy'), '', '... and its copy on its server');
run_section('A restore, a copy and a new name', undef, 'the administrator' => ZkTest->new($after));
is(path_of_lock('shop'), '/pg_advisory/shop/1', '... until it has the setting');
is(path_of_lock('shop_old'), '/pg_advisory/shop_old/1', 'a database with a new name has other locks');
$after->command_ok([ 'pg_dump', '-C', '-f', "$tmp/shop.sql", 'shop' ], 'pg_dump -C');
like(slurp_file("$tmp/shop.sql"), qr/^ALTER DATABASE shop SET "?zklock.advisory_locks"? TO 'cluster'/m,
	'... has the settings of the database');
$after->command_ok([ 'pg_dump', '-f', "$tmp/shop.sql", 'shop' ], 'pg_dump');
unlike(slurp_file("$tmp/shop.sql"), qr/advisory_locks/, '... has not');

done_testing();
