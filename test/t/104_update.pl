# ALTER EXTENSION UPDATE while locks are held: locks and fences are not
# changed, and the extension is the same as a new one of that version.
#
# The update begins with the first version, runs the installed scripts, and
# then goes to a version that only this test has. The library may be newer than
# the extension, or older, also on a standby only. The test runs in a copy of the installation,
# which has what the server needs to find its scripts there.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Catalog;
use Docs;
use FindBin;
use Installation;
use Module;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stage qw(pg_config);
use Test::More;
use ZkServer;
use ZkTest;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $installation = Installation->copy($dir);
my $extension = $installation->extension;

my ($latest) =
  slurp_file("$extension/zklock.control") =~ /^default_version = '(.*)'$/m;
my ($first) = sort map { /--([^-]*)\.sql$/ } glob("$extension/zklock--*.sql");
append_to_file("$extension/zklock--$latest--next.sql", <<'EOSQL');
ALTER TABLE zk_lock_fences ADD COLUMN comment text;
CREATE FUNCTION zk_next() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE VIEW zk_next AS SELECT 1 AS next;
EOSQL

# A base script of that version, and two that are not the same
my $base = join('', map { slurp_file($_) } "$extension/zklock--$first.sql",
	sort glob("$extension/zklock--*--*.sql"));
append_to_file("$extension/zklock--next.sql", $base);
append_to_file("$extension/zklock--open.sql", $base =~ s/^REVOKE [^;]*;$//mr);
append_to_file("$extension/zklock--view.sql", $base =~ s/SELECT 1 AS next/SELECT 2 AS next/r);

my $zk = ZkServer->new->start;
my $node;
{
	local $ENV{PATH} = $installation->bindir . ":$ENV{PATH}";
	$node = new_node('main', $zk->hosts);
}
$node->safe_psql('postgres',
	qq(DROP EXTENSION zklock; CREATE EXTENSION zklock VERSION '$first'));

# Returns what a version of the extension consists of, created in a database of its own, and
# then updated.
sub contents
{
	my ($version, $updated) = @_;
	my $catalog = slurp_file("$FindBin::RealBin/../sql/catalog.sql");

	$node->safe_psql('postgres', 'CREATE DATABASE contents');
	$node->safe_psql('contents', qq(CREATE EXTENSION zklock VERSION '$version';) .
		  ($updated ? qq(ALTER EXTENSION zklock UPDATE TO '$updated') : ''));
	my $contents = $node->safe_psql('contents', <<"EOSQL");
$catalog
SELECT objid::regclass, pg_get_viewdef(objid) FROM members JOIN pg_class ON oid = objid
WHERE relkind = 'v' ORDER BY relname;
SELECT objid::regprocedure, prosrc FROM members JOIN pg_proc ON oid = objid
WHERE classid = 'pg_proc'::regclass ORDER BY objid::regprocedure::text;
EOSQL
	$node->safe_psql('postgres', 'DROP DATABASE contents');
	return $contents;
}

my $next = contents('next');
like($next, qr/^zk_next\(\)/m, 'an extension has what its script makes');
is(contents($first, $latest), contents($latest), 'an extension that is updated is as a new one');
is(contents($first, 'next'), $next, '... also with another version');
isnt(contents($_), $next, "... and a difference is found: $_") for qw(open view);

my ($holder, $waiter, $admin) = map { ZkTest->new($node)->connect } 1 .. 3;

# The holder does not read the fences itself: the update would wait for its
# transaction.
sub state
{
	return $holder->query(q(
			SELECT path, mode, granted, session_holds, transaction_holds, token,
				grant_number, node, lost
			FROM zk_locks WHERE pid = pg_backend_pid() ORDER BY path))
	  . "\n"
	  . $admin->query(q(
			SELECT path, token, grant_number, shared_token, fenced_at
			FROM zk_lock_fences));
}

is($holder->query(q(SELECT zk_lock_acquire('/update/session'))),
	't', 'session-level lock is acquired');
is($holder->query(q(SELECT zk_lock_acquire('/update/session'))), 't', '... twice');
my $token = $holder->query(q(SELECT zk_lock_fence('/update/session')));
like($token, qr/^\d+$/, '... and fenced');
$holder->query(q(BEGIN; SELECT zk_lock_guard('/update/transaction')));
my $before = state();
$waiter->start(q(SELECT zk_lock_acquire('/update/transaction')));
wait_for_queue($zk, '/update/transaction', $holder, $waiter);

is( $admin->query(q(ALTER EXTENSION zklock UPDATE TO 'next'; SELECT zk_next())),
	'1', 'extension is updated while locks are held');
is(state(), $before, 'locks and fences are the same');
ok(!$waiter->is_done, 'waiter still waits');
is($holder->query('COMMIT'), '', '... until the holder commits');
is($waiter->result, 't', '... and is granted the lock');

is($admin->query(q(SELECT zk_lock_acquire('/update/session', '0'))),
	'f', 'session-level lock is still held');
is($holder->query(q(SELECT zk_lock_fence('/update/session'))),
	$token, '... and its holder can fence again');
like($admin->query("SELECT zk_fence('/update/session', $token - 1)"),
	qr/^ERROR:  40001:/m, '... an older token is refused');
is($holder->query(q(SELECT zk_lock_release_all())), '2', '... both holds can be released');
is($admin->query(q(SELECT zk_lock_acquire('/update/session', '1min'))),
	't', 'next holder acquires the lock');
cmp_ok($admin->query(q(SELECT zk_lock_fence('/update/session'))),
	'>=', $token, '... with a token that the fence accepts');

# zklock_advisory: a server has the library of this release, and in its databases the first
# version; then they are updated.
my ($advisory) = slurp_file("$extension/zklock_advisory.control") =~ /^default_version = '(.*)'$/m;
my ($first_advisory) = sort map { /--([^-]*)\.sql$/ } glob("$extension/zklock_advisory--*.sql");

# The same as contents(), for this extension
sub advisory_contents
{
	my ($version, $updated) = @_;
	my $create = "CREATE EXTENSION zklock_advisory VERSION '$version';"
	  . ($updated ? 'ALTER EXTENSION zklock_advisory UPDATE;' : '');

	$node->safe_psql('postgres', 'CREATE DATABASE contents');
	$node->safe_psql('contents', 'CREATE EXTENSION zklock');
	my $contents = $node->safe_psql('contents', advisory_catalog($create));
	$node->safe_psql('postgres', 'DROP DATABASE contents');
	return $contents;
}

my $new = advisory_contents($advisory);
like($new, qr/^zk_advisory\.pg_lock_status\(\)/m, 'a new zklock_advisory shows locks');
isnt(advisory_contents($first_advisory), $new, '... the first version did in another way');
is(advisory_contents($first_advisory, 1), $new, '... and if it is updated, it is as a new one');

$node->append_conf('postgresql.conf', q(shared_preload_libraries = 'zklock'));
$node->restart;
my $rows = q(SELECT string_agg(objid::text, ' ' ORDER BY objid)
	FROM %s.pg_locks WHERE locktype = 'advisory');
my ($local, $across, $looker) = map { ZkTest->new($node) } 1 .. 3;
$node->safe_psql('postgres', "CREATE EXTENSION zklock_advisory VERSION '$first_advisory';
	CREATE VIEW locked AS SELECT objid FROM zk_advisory.pg_locks WHERE locktype = 'advisory'");
$local->query('SELECT pg_advisory_lock(1)');
$across->query(q(SET zklock.advisory_locks = 'cluster'; SELECT pg_advisory_lock(2)));
$looker->query("SET zklock.advisory_locks = 'cluster'; PREPARE q AS " . sprintf($rows, 'pg_catalog'));
is($looker->query('EXECUTE q'), '1', "a newer library: PostgreSQL's view has the locks of this server");
is($looker->query(sprintf($rows, 'zk_advisory')), '1 2', '... and that of the first version has all');
is($looker->query(q(SELECT pg_try_advisory_lock(2), pg_try_advisory_lock(3))), 'f|t', '... and locks are across servers');
$admin->close;
$admin = ZkTest->new($node);
is($admin->query('ALTER EXTENSION zklock_advisory UPDATE'), '', 'the extension is updated while locks are held');
is($looker->query('EXECUTE q; ' . sprintf($rows, 'zk_advisory')), "1 2 3\n1 2 3", '... and then both views have all');
is($looker->query(q(SELECT string_agg(objid::text, ' ' ORDER BY objid) FROM locked)), '1 2 3', '... and so has a view of a user');
is($across->query('SELECT pg_advisory_unlock(2)'), 't', '... and locks are released');
$_->close for $local, $across, $looker;

# The library is installed anew. The server has loaded it after a restart, not before, whatever
# the versions of the extension are.
my ($versions, $started) = map { $_->[0] } map { grep { $_->[0] =~ /^SELECT/ } @{ $_->{statements} } }
  sql_blocks('docs/operations.md', 'A new version of the package');
my $library = pg_config('pkglibdir') . '/zklock.so';
wait_until('the second in which the server was started is over',
	sub { $node->safe_psql('postgres', q(SELECT now() > date_trunc('second', pg_postmaster_start_time()) + '1 s')) eq 't' });
$installation->use_library($library);
is($node->safe_psql('postgres', $started), 'f', 'a server that was not restarted has an older library');
is($node->safe_psql('postgres', $versions =~ s/zklock/zklock_advisory/r),
	't', '... which the versions do not show');
$node->restart;
is($node->safe_psql('postgres', $started), 't', '... and then it has the newer one');

# The library is the older one: that of another build without these functions.
build_zklock($node, [], 'advisory/looks.c' =>
	  sub { s/zk_advisory_(lock_status|blocking_pids)\b/zk_advisory_other_$1/g });
for my $control (map { "$extension/$_.control" } qw(zklock zklock_advisory))
{
	my $text = slurp_file($control) =~ s/\$libdir/$node->basedir/er;

	unlink($control) or die "$control: $!\n";
	append_to_file($control, $text);
}
$node->safe_psql('postgres', 'CREATE DATABASE older');
$admin = ZkTest->new($node);
$admin->query("\\connect older\nCREATE EXTENSION zklock; CREATE EXTENSION zklock_advisory VERSION '$first_advisory'");
like($admin->query('ALTER EXTENSION zklock_advisory UPDATE'),
	qr/^ERROR:  42883: could not find function "zk_advisory_lock_status" in file/,
	'an older library: the extension cannot be updated before the server is restarted');
is($admin->query(q(SELECT extversion FROM pg_extension WHERE extname = 'zklock_advisory')), $first_advisory,
	'... and stays as it is');
is($admin->query(q(SET zklock.advisory_locks = 'cluster'; SELECT pg_try_advisory_lock(4); ) . sprintf($rows, 'zk_advisory')),
	"t\n4", '... and usable');
$admin->close;

# A primary has the newer library, and its standby the older one until it is restarted.
my $primary = new_node(
	'primary', $zk->hosts,
	shared_preload_libraries => 'zklock',
	wal_level => 'replica',
	max_wal_senders => 2);
my $older = Installation->copy("$dir/older");
my $standby = PostgreSQL::Test::Cluster->new('standby');

$older->use_library($node->basedir . '/zklock.so');
$primary->safe_psql('postgres', "CREATE EXTENSION zklock_advisory VERSION '$first_advisory'");
$primary->backup('backup');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
{
	local $ENV{PATH} = $older->bindir . ":$ENV{PATH}";

	$standby->start;
	$primary->safe_psql('postgres', 'ALTER EXTENSION zklock_advisory UPDATE');
	$primary->wait_for_catchup($standby);
	$looker = ZkTest->new($standby);
	like($looker->query('SELECT count(*) FROM zk_advisory.pg_locks'),
		qr/^ERROR:  42883: could not find function "zk_advisory_lock_status" in file/,
		'a standby with an older library does not show locks');
	is($looker->query(q(SET zklock.advisory_locks = 'cluster'; SELECT pg_try_advisory_lock(5))),
		't', '... and takes them');
	$looker->close;
	$older->use_library($library);
	$standby->restart;
	like(ZkTest->new($standby)->query('SELECT count(*) FROM zk_advisory.pg_locks'),
		qr/^\d+$/, '... until it is restarted with the newer one');
}

done_testing();
