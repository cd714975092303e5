# The differences to advisory locks, and to a fence table of one's own, that
# the documentation describes.
#
# Runs once: the result does not depend on the mode.

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

# A lock path is shared by all databases; each database has its own fences.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE SCHEMA locks; CREATE EXTENSION zklock SCHEMA locks');
my $there = ZkTest->new($node);
$there->query("\\connect other\nSELECT locks.zk_lock_acquire('/connect')");
$one->query(q(SELECT zk_lock_acquire('/differences')));
is($there->query(q(SELECT locks.zk_lock_acquire('/differences', '0'))),
	'f', 'lock excludes sessions of other databases');
$one->query(q(SELECT zk_lock_fence('/differences'), zk_lock_release('/differences')));
is($there->query(q(SELECT locks.zk_lock_acquire('/differences');
	SELECT count(*) FROM locks.zk_lock_fences)), "t\n0", '... which have their own fences');
$there->close;

# Without shared_preload_libraries, deadlocks are found through ZooKeeper.
$_->query('SET deadlock_timeout = 1') for $one, $two;
is($one->query(q(SELECT zk_lock_acquire('/dead/a'))), 't', 'first session has a lock');
is($two->query(q(SELECT zk_lock_acquire('/dead/b'))),
	't', 'second session has another lock');
$two->start(q(SELECT zk_lock_acquire('/dead/a')));
wait_for_queue($zk, '/dead/a', $one, $two);
$one->start(q(SELECT zk_lock_acquire('/dead/b')));
wait_until('a wait ends', sub { $one->is_done || $two->is_done });
my ($victim, $other) = $one->is_done ? ($one, $two) : ($two, $one);
like($victim->result, qr/^ERROR:  40P01:/, 'a deadlock has a victim');
ok(!$other->is_done, '... the other session still waits');
is($victim->query(q(SELECT zk_lock_release_all())),
	'1', '... until the victim releases its lock');
is($other->result, 't', '... and is then granted it');
$_->query(q(SELECT zk_lock_release_all())) for $one, $two;

# A role that may not read the queue gets the holder in the error.
$node->safe_psql('postgres', q(CREATE ROLE plain LOGIN;
	REVOKE EXECUTE ON FUNCTION zk_lock_queue(text) FROM PUBLIC));
$one->query(q(SELECT zk_lock_acquire('/told')));
{
	local $ENV{PGUSER} = 'plain';
	my $plain = ZkTest->new($node)->connect;
	my $refused = qr/^ERROR:  42501: permission denied for function zk_lock_queue/m;
	my $answer;

	like($plain->query(q(SELECT count(*) FROM zk_lock_queue('/told'))),
		$refused, 'role without privilege cannot read the queue');
	$two->start(q(SELECT zk_lock_acquire('/told')));
	wait_for_queue($zk, '/told', $one, $two);
	like($plain->query('SELECT count(*) FROM zk_lock_blockers'),
		$refused, '... or the view');
	wait_until('the holder is known',
		sub { ($answer = $plain->query(q(SELECT zk_lock_guard('/told', '0')))) =~ /^ERROR:  55P03/ });
	like($answer, qr/^DETAIL:  The lock is held by .* pid=${\ $one->pid} /m,
		'... but the error describes the holder');
	$plain->close;
}
$_->query(q(SELECT zk_lock_release_all())) for $one, $two;

# The volatility of a function determines what it sees after it has waited for
# a lock.
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
	my $answer = $two->result;
	like($answer, qr/^$seen\z/m, "$marked function sees $seen after it has waited");
	is($answer =~ /^WARNING:  01000: lock on/m ? 1 : 0, $seen, '... and a warning tells if that is too old');
}

# A lock that is released before COMMIT is free while its changes are invisible, as with
# an advisory lock.
for ([ q(zk_lock_acquire('/stock')), q(zk_lock_release('/stock')) ],
	[ 'pg_advisory_lock(1)', 'pg_advisory_unlock(1)' ])
{
	my ($acquire, $release) = @$_;

	for ([ before => [ "SELECT $release", 'COMMIT' ], 1 ],
		[ after => [ 'COMMIT', "SELECT $release" ], 0 ])
	{
		my ($when, $end, $seen) = @$_;

		$one->query("UPDATE stock SET pieces = 1; BEGIN; SELECT $acquire; UPDATE stock SET pieces = 0");
		$one->query($_) for $when eq 'before' ? $end->[0] : @$end;
		$two->query("SELECT $acquire");
		is($two->query('SELECT pieces FROM stock'),
			$seen, "next holder sees $seen after $release $when COMMIT");
		$one->query($end->[1]) if $when eq 'before';
		$two->query("SELECT $release");
	}
}

# A dump contains the fences, which the owner of the database may read, unless they are in a
# schema of somebody else.
$node->safe_psql('other', q(CREATE ROLE owner LOGIN; ALTER DATABASE other OWNER TO owner;
	SELECT locks.zk_fence('/dumped', 7)));

sub dump_by_owner
{
	my $err = '';
	my $ok = IPC::Run::run(
		[ 'pg_dump', '-U', 'owner', '-d', $node->connstr('other') ],
		'>', \my $out, '2>', \$err);

	return $ok ? $out : $err;
}

like(dump_by_owner(), qr/permission denied for schema locks/,
	'owner of a database cannot dump it without USAGE on the schema of the extension');
$node->safe_psql('other', 'GRANT USAGE ON SCHEMA locks TO owner');
like(dump_by_owner(), qr{^/dumped\t7\t0\t}m, '... but with it');

done_testing();
