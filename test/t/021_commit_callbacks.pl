# Another library runs statements in its pre-commit callback, before the one of
# zklock: no commit goes unchecked, and the list of callbacks is not damaged.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $library = build_module('at_commit');
my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $zk->hosts);
my $rival = ZkTest->new($node);
my $key = ZkTest->new($node);

# An insertion into "late" calls the library during the commit, and through an
# expression, which runs no statement.
$node->safe_psql('postgres', qq(
	CREATE TABLE early (what text);
	CREATE TABLE late (what text);
	CREATE FUNCTION at_commit(text) RETURNS text AS '$library' LANGUAGE C;
	CREATE FUNCTION come_late() RETURNS trigger LANGUAGE plpgsql AS
		\$\$ DECLARE nothing text;
		BEGIN nothing := at_commit('SELECT 1'); RETURN NULL; END \$\$;
	CREATE CONSTRAINT TRIGGER come_late AFTER INSERT ON late
		DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION come_late()));

my $lock = q(zk_lock_acquire('/callbacks', scope => 'transaction'));
my $take = qq(at_commit(\$q\$SELECT $lock\$q\$));
my $do = q(DO $$ BEGIN %s; COMMIT; END $$);

# The statements before the transaction, and the transaction
my %commits = (
	'the other library takes the first lock' => [
		q(SELECT at_commit('SELECT 1')),
		"BEGIN; INSERT INTO early VALUES (1); SELECT $take; COMMIT" ],
	'the other library comes late' =>
	  [ 'SELECT 1', "BEGIN; SELECT $lock; INSERT INTO late VALUES (1); COMMIT" ],
	'the other library takes the first lock in a procedure' => [
		q(SELECT at_commit('SELECT 1')),
		sprintf($do, "INSERT INTO early VALUES (1); PERFORM $take") ],
	'the other library comes late in a procedure' => [
		'SELECT 1', sprintf($do, "PERFORM $lock; INSERT INTO late VALUES (1)")
	]);

for my $what (sort keys %commits)
{
	my ($before, $sql) = @{ $commits{$what} };
	my $session = ZkTest->new(
		$node,
		'zklock.session_timeout' => '3s',
		'zklock.connect_timeout' => '2s',
		'zklock.hosts' => $proxy->hosts);

	# The lock is lost while the other library is busy.
	$session->query("LOAD 'zklock'; $before");
	$key->query('SELECT pg_advisory_lock(1)');
	$session->start($sql);
	wait_for_queue($zk, '/callbacks', $session);
	$session->wait_for_event('Lock');
	$proxy->hold;
	is($rival->query(q(SELECT zk_lock_acquire('/callbacks'))),
		't', "$what: another backend acquires the lock meanwhile");
	$key->query('SELECT pg_advisory_unlock(1)');
	like($session->result, qr{^ERROR:  40001: lock on "/callbacks" was lost}m,
		'... the commit is refused');
	$proxy->release;
	is( $node->safe_psql('postgres',
			'SELECT (SELECT count(*) FROM early) + (SELECT count(*) FROM late)'),
		'0', '... and no row is written');
	is( $session->query(
			'SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
		'0', '... and the session can run more statements');
	$rival->query(q(SELECT zk_lock_release_all()));
	wait_for_queue($zk, '/callbacks');
	$session->close;
}

done_testing();
