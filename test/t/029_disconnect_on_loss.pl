# zklock.on_loss = 'disconnect': when a lock is lost, its holder's client is
# disconnected, idle or not. Nobody else is, and no commit is ended.
#
# Shortened unless ZKLOCK_LONG is set: commits that wait for a standby

use strict;
use warnings;

use PgBouncer;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $certificate = PostgreSQL::Test::Utils::tempdir() . '/server';
my %tls = check_pg_config('#define USE_OPENSSL 1') && system_log(
	'openssl', qw(req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost),
	'-keyout', "$certificate.key", '-out', "$certificate.crt") == 0
  ? (ssl => 'on', ssl_cert_file => "$certificate.crt", ssl_key_file => "$certificate.key") : ();
chmod(0600, "$certificate.key") if %tls;

use constant TIMEOUT => 2;
my $node = new_node(
	'main', $proxy->hosts, %tls,
	listen_addresses => '127.0.0.1',
	log_line_prefix => '%p ',
	max_connections => 100,
	max_wal_senders => 4,
	wal_level => 'logical',
	'zklock.on_loss' => 'disconnect',
	'zklock.session_timeout' => TIMEOUT . 's');
my $admin = ZkTest->new($node);
my $port = $node->port;

sub session
{
	my ($connstr) = @_;

	return ZkTest->new($connstr ? Address->new($connstr) : $node);
}

sub is_alive
{
	my ($session) = @_;

	return $admin->query("SELECT count(*) FROM pg_stat_activity WHERE pid = ${\ $session->pid}");
}

# Lets the sessions of all locks end, and returns the time when that is known.
sub lose
{
	$proxy->refuse;
	$proxy->cut;
	return time() + TIMEOUT;
}

# ZooKeeper is back, and everybody can take locks again.
sub restore
{
	$proxy->accept;
	my $probe = session();

	wait_until('locks can be taken again',
		sub { $probe->query(q(SELECT zk_lock_acquire('/probe', '5s'))) eq 't' });
	$probe->close;
	return;
}

# Waits until the backends have ended, and returns the seconds that the last of
# them has taken after a time.
sub seconds_until_ended
{
	my ($known, @sessions) = @_;
	my $pids = join(',', map { $_->pid } @sessions);

	wait_until('the backends have ended',
		sub { $admin->query("SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pids)") eq '0' });
	return time() - $known;
}

sub is_logged
{
	my ($session, $path) = @_;
	my $line = "${\ $session->pid} LOG:  disconnected the client because lock on \"$path\" was lost";

	return slurp_file($node->logfile) =~ /^\Q$line\E$/m;
}

$admin->query(q(CREATE TABLE t (n int)));

# What idle holders of locks have done, and how they are connected
my $take = q(SELECT zk_lock_acquire('%s', scope => '%s'));
my $guard = sprintf($take, '%s', 'transaction');
my @holders = (
	[ 'on a Unix socket', $take ],
	[ 'over TCP', $take, "host=127.0.0.1 port=$port dbname=postgres sslmode=disable" ],
	%tls ? [ 'over TLS', $take,
		"host=127.0.0.1 port=$port dbname=postgres sslmode=require sslcert=none sslrootcert=none" ] : (),
	[ 'in a transaction', "BEGIN; $guard" ],
	[ 'in a subtransaction', "BEGIN; SAVEPOINT s; $guard" ],
	[ 'in a failed transaction', "$take; BEGIN; SELECT 1 / 0" ],
	[ 'with the setting made since', "SET zklock.on_loss = 'cancel'; $take; RESET zklock.on_loss" ],
	[ 'with the setting restored by ROLLBACK',
		"$take; BEGIN; SET zklock.on_loss = 'cancel'; ROLLBACK" ],
	[ 'in COPY', "$take; COPY t FROM STDIN" ],
	[ 'in COPY, in a transaction', "BEGIN; $guard; COPY t FROM STDIN" ],
	server_mode() ? () :
	[ 'of a walsender', $take, $node->connstr('postgres') . ' replication=database' ]);
my @others = (
	[ 'without a lock', 'SELECT 1' ],
	[ 'that has released its lock', "$take; SELECT zk_lock_release_all()" ],
	[ 'that has discarded its lock', "$take; DISCARD ALL" ],
	[ 'that has rolled its lock back', "BEGIN; SAVEPOINT s; $guard; ROLLBACK TO s" ],
	[ 'whose transaction has ended', "BEGIN; $guard; COMMIT" ],
	[ 'that does not want it', "SET zklock.on_loss = 'cancel'; $take" ],
	[ 'that does not want it any more', "$take; SET zklock.on_loss = 'cancel'" ],
	[ 'that does not want it outside of its transaction',
		"SET zklock.on_loss = 'cancel'; $take; BEGIN; SET LOCAL zklock.on_loss = 'disconnect'; COMMIT" ]);
my $pool;

$ENV{PATH} .= ':/usr/sbin';
if (grep { -x "$_/pgbouncer" } split(/:/, $ENV{PATH}))
{
	$pool = PgBouncer->new($node, pool_mode => 'session');
	push @holders, [ 'behind PgBouncer', $take, $pool->connstr('postgres') ];
}

my $n = 0;
for my $case (@holders, @others)
{
	my ($what, $sql, $connstr) = @$case;

	$case->[3] = my $session = session($connstr);
	$case->[4] = my $path = '/held/' . ++$n;
	$sql =~ s/%s(?=')(.*?)%s/$path$1session/ or $sql =~ s/%s/$path/;
	$session->start($sql);
	like($session->result, qr/^(t|ERROR:  22012)/m, "$what: holds the lock")
	  if $sql !~ /COPY/ && $sql =~ /acquire/;
}
wait_until('COPY waits for its client',
	sub { $admin->query(q(SELECT count(*) FROM pg_stat_activity
		WHERE query = 'COPY t FROM STDIN;' AND wait_event = 'ClientRead')) eq '2' });

# A connection that comes back in time is no loss.
my $before = $admin->query(q(SELECT count(*) FROM zk_locks));
$proxy->cut;
wait_until('ZooKeeper answers again',
	sub { $admin->query(q(SELECT zk_lock_acquire('/again', '5s'), zk_lock_release_all())) eq 't|1' });
is($admin->query(q(SELECT count(*) FROM zk_locks)), $before, 'all locks are still held')
  if server_mode();
ok(is_alive($_->[3]), "$_->[0]: nothing is lost yet") for @holders;

my $known = lose();

seconds_until_ended($known, map { $_->[3] } @holders);
ok(is_logged(@$_[ 3, 4 ]), "$_->[0]: the log names the lock") for @holders;
unlike($_->[3]->query('SELECT 1'), qr/^1$/m, "$_->[0]: the client is disconnected")
  for grep { $_->[1] !~ /COPY/ } @holders;
ok(is_alive($_->[3]), "session $_->[0] is not affected") for @others;
$_->[3]->close for @holders, @others;
restore();

# A statement that runs ends with the error that names the lock, and the
# session after it.
my $busy = session();
$busy->query(sprintf($take, '/busy', 'session'));
$busy->start('SELECT pg_sleep(1000)');
lose();
like($busy->result, qr{^ERROR:  40001: lock on "/busy" was lost}m,
	'statement is cancelled, with the reason');
seconds_until_ended(0, $busy);
restore();

# A node that is deleted by hand. The backend's own session learns of it when it
# asks.
my $deleted = session();
my $neighbour = session();
$deleted->query(q(SET zklock.confirm_commit = 'always'));
$deleted->query(sprintf($take, '/deleted', 'session'));
$neighbour->query(sprintf($take, '/kept', 'session'));
$zk->delete("/deleted/$_") for $zk->children('/deleted');
if (server_mode())
{
	# Only the worker of backends that share nodes, or revocable ones, watches
	# them.
	$deleted->start('SELECT 1');
}
else
{
	like($deleted->query('SELECT 1'), qr{^ERROR:  40001: lock on "/deleted" was lost}m,
		'deleted node is noticed');
}
seconds_until_ended(0, $deleted);
ok(is_alive($neighbour), 'session with another lock is not affected');
$neighbour->close;

# A revocation is no loss.
my $revoked = session();
$revoked->query(q(SET zklock.revocable = on));
$revoked->query(sprintf($take, '/revoked', 'session'));
$admin->query(q(SELECT zk_lock_revoke('/revoked')));
wait_until('the lock is revoked',
	sub { $revoked->query(q(SELECT 1)) =~ /was revoked/ });
is($revoked->query('SELECT 1'), '1', 'session is not affected by a revocation');
$revoked->close;

# The times of 50 losses. A busy machine can delay this test in some of the rounds.
my @times;
for my $round (1 .. 5)
{
	my @idle = map { session() } 1 .. 10;

	$idle[$_]->query(sprintf($take, "/idle/$_", 'session')) for 0 .. $#idle;
	push @times, seconds_until_ended(lose(), @idle);
	restore();
}
cmp_ok((sort { $a <=> $b } @times)[0], '<', 1,
	"ten connections end within a second (@{[ map { sprintf('%.2f', $_) } @times ]})");

# Commits under losses: each that has an effect also ends, although its client may be found
# to be disconnected meanwhile.
my $script = PostgreSQL::Test::Utils::tempdir() . '/commits.sql';
append_to_file($script, "BEGIN;\nINSERT INTO t VALUES (pg_backend_pid());\nCOMMIT;\n" x 20000);
$admin->query(q(ALTER SYSTEM SET log_statement = 'all'));
$admin->query(q(ALTER SYSTEM SET log_min_duration_statement = 0));
$admin->query(q(ALTER SYSTEM SET client_connection_check_interval = '10ms'));
$admin->query('SELECT pg_reload_conf()');

my $commits = 0;
while ($commits < 1000)
{
	my @busy = map { session() } 1 .. 5;

	for my $i (0 .. $#busy)
	{
		$busy[$i]->query(q(SET zklock.confirm_commit = 'off'));
		$busy[$i]->query(sprintf($take, "/busy/$i", 'session'));
		$busy[$i]->start("\\i $script");
	}
	seconds_until_ended(lose(), @busy);
	my $log = slurp_file($node->logfile);

	for my $pid (map { $_->pid } @busy)
	{
		my ($begun, $ended) = (0, 0);

		while ($log =~ /^$pid LOG:  (?:(statement: COMMIT;)|duration: [\d.]+ ms$)/mg)
		{
			# Each statement that succeeds has a duration.
			$1 ? $begun++ : $begun > $ended && $ended++;
		}
		die "no commit\n" if !$begun;
		is($admin->query("SELECT count(*) FROM t WHERE n = $pid"), $ended, "all $ended commits ended");
		$commits += $begun;
	}
	restore();
}

# The same while they wait for a synchronous standby
$admin->query(q(ALTER SYSTEM SET synchronous_standby_names = 'nobody'));
$admin->query('SELECT pg_reload_conf()');
my $waiting = $ENV{ZKLOCK_LONG} ? 200 : 20;
while ($waiting > 0)
{
	my @waits = map { session() } 1 .. 20;

	for my $i (0 .. $#waits)
	{
		$waits[$i]->query(q(SET zklock.confirm_commit = 'off'));
		$waits[$i]->query(sprintf($take, "/waits/$i", 'session'));
		$waits[$i]->start("BEGIN; INSERT INTO t VALUES (2); COMMIT; SELECT 'committed'");
	}
	my $n_waiting = sub {
		$admin->query(q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'));
	};
	wait_until('all commits wait for the standby', sub { $n_waiting->() eq '20' });
	my $known = lose();
	wait_until('the loss is known for a while', sub { time() > $known + 1 });
	is($n_waiting->(), '20', 'commits wait for the standby in spite of the loss');
	$admin->query(q(ALTER SYSTEM RESET synchronous_standby_names));
	$admin->query('SELECT pg_reload_conf()');
	unlike($_->result, qr/^(WARNING|ERROR|FATAL)/m, '... and succeed') for @waits;
	seconds_until_ended(0, @waits);
	restore();
	$waiting -= @waits;
	$admin->query(q(ALTER SYSTEM SET synchronous_standby_names = 'nobody'));
	$admin->query('SELECT pg_reload_conf()');
}

$pool->stop if $pool;
done_testing();

# Takes a node's place in ZkTest->new().
package Address;

sub new
{
	my ($class, $connstr) = @_;

	return bless { connstr => $connstr }, $class;
}

sub connstr
{
	my ($self) = @_;

	return $self->{connstr};
}
