# ALTER EXTENSION UPDATE while locks are held: locks and fences are not
# changed, and the extension is the same as a new one of that version.
#
# The update begins with the first version, runs the installed scripts, and
# then goes to a version that only this test has. The test runs in a copy of
# the installation, which has what the server needs to find its scripts there.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Child;
use File::Basename;
use File::Path qw(make_path);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my %installed = map { chomp(my $path = `"$pg_config" --$_`); ($_ => $path) }
  qw(bindir sharedir pkglibdir);
my $extension = "$dir$installed{sharedir}/extension";

# A server finds its other files relative to its program. The program must be a
# copy, because the server follows links. The other files can be links.
sub link_all
{
	my ($from, $to) = @_;

	make_path($to);
	for my $file (glob("$from/*"))
	{
		my $link = "$to/" . basename($file);

		-e $link or symlink($file, $link) or die "$link: $!\n";
	}
	return;
}

make_path(map { "$dir" . dirname($installed{$_}) } qw(bindir pkglibdir));
Child->run("$dir/log", $Wait::timeout, 'cp', '-R', $installed{bindir},
	"$dir$installed{bindir}");
symlink($installed{pkglibdir}, "$dir$installed{pkglibdir}")
  or die "pkglibdir: $!\n";
link_all("$installed{sharedir}/extension", $extension);
link_all($installed{sharedir}, "$dir$installed{sharedir}");

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
	local $ENV{PATH} = "$dir$installed{bindir}:$ENV{PATH}";
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

done_testing();
