# A procedure that commits, or that catches its cancellation, can be cancelled
# again. The error names the right cause: a user's request, or the lock that
# was revoked or lost, and not a lock that was released without notice of its
# loss.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $library = build_module('at_release');
my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $main = new_node('main', $zk->hosts);
my $revoker = ZkTest->new(new_node('other', $zk->hosts));
my $file = PostgreSQL::Test::Utils::tempdir() . '/suspended';

# What a procedure does while it holds the lock: it is suspended at the end of
# a transaction, just before its locks are released; or in a trigger, after its
# cancellation and just before the check at commit; or it sleeps, catches its
# cancellation, and continues.
my %procedures = (
	'about to release its lock' =>
	  "PERFORM %s; PERFORM at_release('$file', true); COMMIT",
	'about to be checked' => 'PERFORM %s; INSERT INTO still VALUES (1); COMMIT',
	'asleep, and continues after a cancellation' => 'BEGIN PERFORM %s; PERFORM pg_sleep(1000);
		EXCEPTION WHEN query_canceled THEN END; COMMIT');

$main->safe_psql('postgres', qq(
	CREATE FUNCTION at_release(text, bool) RETURNS text AS '$library' LANGUAGE C;
	CREATE FUNCTION stand_still() RETURNS trigger AS '$library' LANGUAGE C;
	CREATE TABLE still (n int);
	CREATE CONSTRAINT TRIGGER still AFTER INSERT ON still
		INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stand_still('$file')));

# Another session holds the advisory lock that the procedure waits for at its
# end.
my $key = ZkTest->new($main);
$key->query('SELECT pg_advisory_lock(1)');

# Starts a procedure, and waits until it has reached that point.
sub call
{
	my ($session, $path, $what) = @_;
	my $todo = sprintf($procedures{$what}, "zk_lock_guard('$path')");

	note("a procedure is $what");
	$session->query(q(LOAD 'zklock'));
	$session->start("DO \$do\$ BEGIN $todo; PERFORM pg_advisory_xact_lock(1); END \$do\$");
	if ($what =~ /asleep/)
	{
		wait_for_queue($zk, $path, $session);
		$session->wait_for_event('PgSleep');
	}
	else
	{
		wait_until('the procedure is suspended', sub { -e $file });
	}
	return;
}

# Lets the procedure continue and checks its error. Cancels it again if it has
# not got an error until its end.
sub error_ok
{
	my ($session, $what, $error) = @_;

	unlink($file);
	if ($what !~ /checked/)
	{
		$session->wait_for_event('advisory');
		$main->safe_psql('postgres',
			"SELECT pg_cancel_backend(${\ $session->pid})");
		$error = '57014: canceling statement due to user request';
	}
	like($session->result, qr/^ERROR:  $error$/m, "... error names the cause");
	$session->close;
	return;
}

for my $what (sort keys %procedures)
{
	my $path = '/call/asked';
	my $session = ZkTest->new($main, 'zklock.revocable' => 'on',
		'zklock.session_timeout' => '40s');

	call($session, $path, $what);
	is($revoker->query("SELECT zk_lock_revoke('$path')"), '1', '... its lock is requested');
	wait_until(
		'the request is noticed',
		sub {
			my ($name) = $zk->children($path);
			my $node = defined($name) ? $zk->get("$path/$name") : undef;

			# A procedure that has noticed already has released the lock.
			return !defined($node)
			  || ( $node->{version} == 2
				&& (!server_mode()
					|| $main->safe_psql('postgres',
						"SELECT revoked FROM zk_locks WHERE pid = ${\ $session->pid}")
					ne 'f'));
		});
	error_ok($session, $what,
		qr/57014: canceling statement because lock on "$path" was revoked/);
}

# A lost lock, and a commit without a check
for my $what (sort keys %procedures)
{
	my $path = '/call/lost';
	my $session = ZkTest->new($main, OWN_SESSION,
		'zklock.hosts' => $proxy->hosts,
		'zklock.session_timeout' => '3s',
		'zklock.confirm_commit' => 'off');

	call($session, $path, $what);
	$proxy->mark;
	$proxy->hold;
	wait_for_queue($zk, $path);
	$proxy->release;
	$proxy->wait_frame(dir => 's2c', op => 'connect');
	$proxy->wait_idle;
	error_ok($session, $what, qr/40001: lock on "$path" was lost/);
}

done_testing();
