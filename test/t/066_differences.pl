# Where an advisory lock, or a table of one's own, would behave in another way, the
# documentation says so.
#
# Runs once: of nothing that depends on the mode.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
my ($one, $two) = map { ZkTest->new($node)->connect } 1 .. 2;

# A path is a lock for all databases; fences are each database's.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE SCHEMA locks; CREATE EXTENSION zklock SCHEMA locks');
my $there = ZkTest->new($node);
$there->query("\\connect other\nSELECT locks.zk_lock_acquire('/connect')");
$one->query(q(SELECT zk_lock_acquire('/differences')));
is($there->query(q(SELECT locks.zk_lock_acquire('/differences', '0'))),
	'f', 'a lock is taken for other databases, too');
$one->query(q(SELECT zk_lock_fence('/differences'), zk_lock_release('/differences')));
is($there->query(q(SELECT locks.zk_lock_acquire('/differences');
	SELECT count(*) FROM locks.zk_lock_fences)), "t\n0", '... which have fences of their own');
$there->close;

# Nobody looks for deadlocks.
$_->query('SET deadlock_timeout = 1') for $one, $two;
is($one->query(q(SELECT zk_lock_acquire('/dead/a'))), 't', 'two sessions');
is($two->query(q(SELECT zk_lock_acquire('/dead/b'))), 't', '... have a lock each');
$two->start(q(SELECT zk_lock_acquire('/dead/a')));
wait_for_queue($zk, '/dead/a', $one, $two);
$one->start(q(SELECT zk_lock_acquire('/dead/b')));
wait_for_queue($zk, '/dead/b', $two, $one);
$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $one->pid})");
like($one->result, qr/^ERROR:  57014:/, '... and wait for the other\'s, until somebody ends that');
ok(!$two->is_done, '... for one of them');
is($one->query(q(SELECT zk_lock_release_all())), '1', '... who gives in');
is($two->result, 't', '... to the other');
$two->query(q(SELECT zk_lock_release_all()));

# Who may not look at a queue is told who holds the lock that he did not get.
$node->safe_psql('postgres', q(CREATE ROLE plain LOGIN;
	REVOKE EXECUTE ON FUNCTION zk_lock_queue(text) FROM PUBLIC));
$one->query(q(SELECT zk_lock_acquire('/told')));
{
	local $ENV{PGUSER} = 'plain';
	my $plain = ZkTest->new($node)->connect;
	my $refused = qr/^ERROR:  42501: permission denied for function zk_lock_queue/m;
	my $answer;

	like($plain->query(q(SELECT count(*) FROM zk_lock_queue('/told'))), $refused, 'nobody may look');
	$two->start(q(SELECT zk_lock_acquire('/told')));
	wait_for_queue($zk, '/told', $one, $two);
	like($plain->query('SELECT count(*) FROM zk_lock_blockers'), $refused, '... by a view');
	wait_until('the lock is known to be taken',
		sub { ($answer = $plain->query(q(SELECT zk_lock_guard('/told', '0')))) =~ /^ERROR:  55P03/ });
	like($answer, qr/^DETAIL:  The lock is held by .* pid=${\ $one->pid} /m, '... but is told');
	$plain->close;
}
$_->query(q(SELECT zk_lock_release_all())) for $one, $two;

# What a function sees after it has locked depends on what it is marked as.
$node->safe_psql('postgres', q(
	CREATE TABLE stock (pieces int);
	INSERT INTO stock VALUES (1);
	CREATE FUNCTION pieces() RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM zk_lock_guard('/stock');
		RETURN (SELECT pieces FROM stock);
	END $$));
for ([ 'VOLATILE', 0 ], [ 'STABLE', 1 ])
{
	my ($marked, $seen) = @$_;

	$one->query(q(SELECT zk_lock_acquire('/stock')));
	$node->safe_psql('postgres', "UPDATE stock SET pieces = 1; ALTER FUNCTION pieces() $marked");
	$two->start('SELECT pieces()');
	wait_for_queue($zk, '/stock', $one, $two);
	$one->query(q(UPDATE stock SET pieces = 0; SELECT zk_lock_release('/stock')));
	is($two->result, $seen, "a $marked function that has waited for its lock sees $seen");
}

# A dump has the fences, so that who dumps must be able to read them.
$node->safe_psql('other', q(CREATE ROLE owner LOGIN; ALTER DATABASE other OWNER TO owner;
	SELECT locks.zk_fence('/dumped', 7); GRANT USAGE ON SCHEMA locks TO owner));

sub dump_by_owner
{
	my $err = '';
	my $ok = IPC::Run::run(
		[ 'pg_dump', '-U', 'owner', '-d', $node->connstr('other') ],
		'>', \my $out, '2>', \$err);

	return $ok ? $out : $err;
}

like(dump_by_owner(), qr/permission denied for table zk_lock_fences/, 'the owner of a database cannot dump it');
$node->safe_psql('other', 'GRANT SELECT ON locks.zk_lock_fences TO owner');
like(dump_by_owner(), qr{^/dumped\t7\t0\t}m, '... unless he may read the fences');

done_testing();
