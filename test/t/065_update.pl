# ALTER EXTENSION UPDATE while locks are held: they, and the fences that were made,
# are as before.
#
# It begins with the first version, goes through the scripts that are installed, and
# then to a version that only this test has: in a copy of the installation, as far
# as it takes for the server to look for scripts there.

use strict;
use warnings;

use Child;
use File::Basename;
use File::Path qw(make_path);
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

# A server finds its other files from where its program is. That has to be a copy,
# as a link would be followed; the others can be links.
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
append_to_file("$extension/zklock--$latest--next.sql", <<'EOSQL');
ALTER TABLE zk_lock_fences ADD COLUMN comment text;
CREATE FUNCTION zk_next() RETURNS int LANGUAGE sql AS 'SELECT 1';
EOSQL

my $zk = ZkServer->new->start;
my $node;
{
	local $ENV{PATH} = "$dir$installed{bindir}:$ENV{PATH}";
	$node = new_node('main', $zk->hosts);
}
$node->safe_psql('postgres',
	q(DROP EXTENSION zklock; CREATE EXTENSION zklock VERSION '1.0'));

my ($holder, $waiter, $admin) = map { ZkTest->new($node)->connect } 1 .. 3;

# The holder does not look at the fences itself: in the midst of a transaction, that
# is a reason for the update to wait.
sub state
{
	return $holder->query(q(
			SELECT path, mode, granted, session_holds, transaction_holds, token,
				grant_number, node, lost
			FROM zk_locks WHERE pid = pg_backend_pid() ORDER BY path))
	  . "\n"
	  . $admin->query(q(
			SELECT path, token, number, shared_token, fenced_at
			FROM zk_lock_fences));
}

is($holder->query(q(SELECT zk_lock_acquire('/update/session'))),
	't', 'a hold of session scope');
is($holder->query(q(SELECT zk_lock_acquire('/update/session'))), 't', '... twice');
my $token = $holder->query(q(SELECT zk_lock_fence('/update/session')));
like($token, qr/^\d+$/, '... with a fence');
$holder->query(q(BEGIN; SELECT zk_lock_guard('/update/transaction')));
my $before = state();
$waiter->start(q(SELECT zk_lock_acquire('/update/transaction')));
wait_for_queue($zk, '/update/transaction', $holder, $waiter);

is( $admin->query(q(ALTER EXTENSION zklock UPDATE TO 'next'; SELECT zk_next())),
	'1', 'the extension is updated meanwhile');
is(state(), $before, 'holds and fences are as before');
ok(!$waiter->is_done, '... and who waited waits');
is($holder->query('COMMIT'), '', '... for a commit, which the update does not mind');
is($waiter->result, 't', '... until then');

is($admin->query(q(SELECT zk_lock_acquire('/update/session', '0'))),
	'f', 'the lock of session scope is held still');
is($holder->query(q(SELECT zk_lock_fence('/update/session'))),
	$token, '... and its holder let in');
like($admin->query("SELECT zk_fence('/update/session', $token - 1)"),
	qr/^ERROR:  40001:/m, '... but no older one');
is($holder->query(q(SELECT zk_lock_release_all())), '2', '... until both are given back');
is($admin->query(q(SELECT zk_lock_acquire('/update/session', '1min'))),
	't', 'then the next one has it');
cmp_ok($admin->query(q(SELECT zk_lock_fence('/update/session'))),
	'>=', $token, '... with a token that the fence lets in');

done_testing();
