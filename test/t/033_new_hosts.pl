# zklock.hosts is changed while locks are in use: nobody loses one for it, and the
# new servers are used as soon as that can be. Who has hosts of their own is not
# concerned.
#
# Runs once: of server mode.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

use constant LOAD => 4;

my ($old, $new) = map { ZkServer->new->start } 1 .. 2;
my $node =
  new_node('main', $old->hosts, 'zklock.session' => 'server', max_connections => 30);
my $worker = worker_of($node);

sub set_hosts
{
	my ($zk) = @_;

	$node->safe_psql('postgres',
		"ALTER SYSTEM SET zklock.hosts = '${\ $zk->hosts}'");
	$node->reload;
	return;
}

# The lines of the server's log that match.
sub logged
{
	my ($pattern) = @_;

	return grep { /LOG:  .*$pattern/ } split(/\n/, slurp_file($node->logfile));
}

my $settings = qr/changed settings of the ZooKeeper session/;
my $waits = qr/$settings wait until no lock is held or waited for/;

# Some who take and give locks all the time, and one who holds one throughout.

$node->safe_psql('postgres', 'CREATE TABLE t (done int)');
my @load = map { ZkTest->new($node) } 1 .. LOAD;
my $holder = ZkTest->new($node);
my $waiter = ZkTest->new($node);
my $observer = ZkTest->new($node);

$holder->query(q(SELECT zk_lock_acquire('/hosts/held')));
$load[$_]->start(qq(
	DO \$\$ BEGIN
		WHILE NOT EXISTS (SELECT FROM t) LOOP
			PERFORM zk_lock_guard('/hosts/load');
			PERFORM zk_lock_guard('/hosts/own$_');
			COMMIT;
		END LOOP;
	END \$\$)) for 0 .. $#load;
$waiter->start(q(SELECT zk_lock_acquire('/hosts/held')));
wait_until('all are at work', sub { $old->children("/hosts") == LOAD + 2 });

my $newcomer = ZkTest->new($node);
my @refused;

set_hosts($new);

# While the session could end, newcomers with little time yield, but are not refused.
wait_until(
	'the worker has given newcomers a pause',
	sub {
		my $answer = $newcomer->query(
			q(SELECT zk_lock_acquire('/hosts/brief', '400ms'), zk_lock_release_all()));

		push @refused, $answer if $answer =~ /^ERROR:  08001/;
		return logged($waits);
	});
is(join("\n", @refused), '', 'who comes with little time is not refused');
wait_until('the settings are there',
	sub { $observer->query('SHOW zklock.hosts') eq $new->hosts });
$node->reload;
is( $newcomer->query(q(SELECT zk_lock_acquire('/hosts/new'), zk_lock_release_all())),
	't|1', 'who comes meanwhile is served');
ok(!grep({ $_ eq 'hosts' } $new->children('/')), '... where the locks are');
is($observer->query('SELECT connected, reload_pending FROM zk_lock_stats'),
	't|t', '... and all see that settings are to come into force');
ok(!$_->is_done, 'nobody has lost anything') for @load, $waiter;
is($holder->query('SELECT 1'), 1, '... nor has who holds');
is($holder->query('SELECT zk_lock_release_all()'), 1, '... until he gives it back');
is($waiter->result, 't', '... to the next');
is($waiter->query('SELECT zk_lock_release_all()'), 1, '... who gives it back');

# All have moments with no lock. From time to time newcomers are kept waiting.
wait_until('the new servers are used',
	sub { $new->children('/hosts') >= LOAD + 1 });
ok(!$_->is_done, '... under load') for @load;
wait_until('... and the old ones are not any more', sub { !$old->sessions });
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
is($_->result, '', '... and nobody has had an error') for @load;
is(worker_of($node), $worker, '... nor did the worker end');
is(scalar(logged($waits)), 1, 'the log says once that the settings wait');
like(slurp_file($node->logfile),
	qr/DETAIL:  There are \d+ locks in this session\.  The oldest is that of process ${\ $holder->pid}\.\n/,
	'... for whom');
is(scalar(logged(qr/$settings are in force after \d+ ms/)), 1, '... and when they are in force');
wait_for_calm($node, $new, '/hosts/load');
is($observer->query('SELECT connected, reload_pending FROM zk_lock_stats'),
	't|f', '... where they have come into force');

# Settings of a database, a role or a session have a session of their own.

$node->safe_psql('postgres',
	"ALTER DATABASE postgres SET zklock.hosts = '${\ $old->hosts}'");
$node->safe_psql('postgres', 'CREATE DATABASE neutral');
my $own = ZkTest->new($node);
is($own->query(q(SELECT zk_lock_acquire('/hosts/own'))), 't', 'of a database');
ok(scalar($old->children('/hosts/own')), '... there is the lock');
ok(!$new->children('/hosts/own'), '... and not where the server has its locks');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET zklock.hosts');
$own->close;
$node->safe_psql('postgres',
	"ALTER ROLE CURRENT_USER SET zklock.hosts = '${\ $old->hosts}'");
$own = ZkTest->new($node);
is($own->query(q(SELECT zk_lock_acquire('/hosts/role'))), 't', 'of a role');
ok(scalar($old->children('/hosts/role')), '... there is the lock');
$node->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET zklock.hosts');
$own->close;
$own = ZkTest->new($node, 'zklock.hosts' => $old->hosts);
is($own->query(q(SELECT zk_lock_acquire('/hosts/session'))), 't', 'of a session');
ok(scalar($old->children('/hosts/session')), '... there is the lock');
$own->query('RESET zklock.hosts');
is($own->query(q(SELECT zk_lock_acquire('/hosts/first'))), 't',
	'while a lock is held');
ok(scalar($old->children('/hosts/first')), '... the next goes where the first went');
$own->query('SELECT zk_lock_release_all()');
is($own->query(q(SELECT zk_lock_acquire('/hosts/last'))), 't', 'then');
ok(scalar($new->children('/hosts/last')), '... it is the server\'s session again');
ok(!$old->children('/hosts/last'), '... only');

done_testing();
