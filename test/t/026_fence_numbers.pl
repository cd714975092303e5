# Fences when backends of one server hand a lock over on one node, and so with
# one token: the number of the grant identifies a late holder. Other servers'
# backends have their own nodes, and other clients have no numbers.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;

# This server has the fences, and each backend has its own session...
my $here = new_node('here', $zk->hosts, 'zklock.session_mode' => 'backend');

# ... and on this one all backends share a session, and keep the node as long
# as they want.
my $there = new_node(
	'there', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.handover_time' => '10min');

# As in docs/fencing.md. Each grant that the fence accepts gets a row, in
# order.
$here->safe_psql('postgres', q(
	CREATE TABLE grants (n serial, server text, token bigint, number bigint);
	CREATE TABLE fence (path text, token bigint, number bigint);
	CREATE FUNCTION fence() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM public.zk_fence(NEW.path, NEW.token, NEW.number);
			RETURN NULL;
		END $$;
	CREATE TRIGGER fence BEFORE INSERT ON fence
		FOR EACH ROW EXECUTE FUNCTION fence()));
$here->safe_psql('postgres', q(
	CREATE VIEW granted AS SELECT server, token, number FROM grants));
import_tables($there, $here, qw(fence granted));

my $observer = ZkTest->new($there);

# Returns the token and the number of a lock that a session holds.
sub grant_of
{
	my ($session, $path, $mode) = @_;

	$mode //= 'exclusive';
	return split(/\|/, $session->query(
		"SELECT zk_lock_token('$path', '$mode'), zk_lock_grant_number('$path', '$mode')"));
}

# Returns the row of a fence.
sub fence
{
	my ($path) = @_;

	return $here->safe_psql('postgres',
		"SELECT token, grant_number, shared_token FROM zk_lock_fences WHERE path = '$path'");
}

# Sends a grant to the fence from the other server.
sub send_grant
{
	my ($session, $path, @grant) = @_;

	return $session->query(
		"INSERT INTO fence VALUES ('$path', $grant[0], $grant[1])");
}

# Calls the fence on this server, and returns the error, if any.
sub call_fence
{
	my ($path, @grant) = @_;
	my $args = join(', ', "'$path'", @grant);
	my (undef, undef, $error) = $here->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT zk_fence($args)");

	return $error;
}

# Returns sessions of the other server: the first holds the lock, and the
# others wait for it in order.
sub line_up
{
	my ($path, $n, $mode) = @_;
	my @sessions = map { ZkTest->new($there) } 1 .. $n;

	$mode //= 'exclusive';
	$sessions[0]->query("SELECT zk_lock_acquire('$path', mode => '$mode')");
	for my $session (@sessions[ 1 .. $n - 1 ])
	{
		$session->start("SELECT zk_lock_acquire('$path', mode => '$mode')");
		$session->wait_for_lock;
	}
	return @sessions;
}

# Hand-overs on one node

my $path = '/number/line';
my ($first, $second, $third) = line_up($path, 3);
my ($token) = grant_of($first, $path);
is( $observer->query(
		qq(SELECT grant_number, grant_number IS NULL, token IS NULL FROM zk_locks
		   WHERE path = '$path' ORDER BY grant_number)),
	"0|f|f\n|t|t\n|t|t",
	'waiters have no number');
for my $number (0 .. 2)
{
	my $session = ($first, $second, $third)[$number];

	is($session->result, 't', 'waiter gets the lock') if $number > 0;
	is(join('.', grant_of($session, $path)),
		"$token.$number", '... with the same token and the next number');
	is( $observer->query(
			"SELECT token, grant_number FROM zk_locks WHERE pid = ${\ $session->pid}"),
		"$token|$number",
		'... which zk_locks shows, too');
	is($session->query("SELECT zk_lock_fence('$path')"),
		$token, '... fence of its own database accepts it');
	is($session->query('SELECT token, grant_number FROM zk_lock_fences'),
		"$token|$number", '... and records both');
	is(send_grant($session, $path, $token, $number),
		'', '... fence of the other server accepts it');
	is(fence($path), "$token|$number|0", '... with the number');
	$session->query("SELECT zk_lock_release('$path')") if $number < 2;
}
is(scalar $zk->children($path), 1, 'all backends have used one node');

# Late calls of former holders of the same node
for my $number (0, 1)
{
	like(
		send_grant($first, $path, $token, $number),
		qr/^ERROR:  40001: lock on "$path" was lost\nDETAIL:  Its fencing token $token with number $number is older than number 2 in/m,
		"late call with number $number is refused");
}
is(send_grant($third, $path, $token, 2), '', '... and that of the holder is accepted');
is($third->query("SELECT zk_lock_fence('$path')"), $token, '... on both servers');

# A call without a number could be made by any of them.
is(call_fence($path, $token), '', 'call without a number is accepted');
is(fence($path), "$token|2|0", '... and the recorded number is not changed');
like(call_fence($path, $token, 1), qr/ERROR:  40001/,
	'... and a late call with a number is still refused');

# After a call of the fence with a wrong number, the holder's error shows the cause.
is(call_fence($path, $token, 3), '', 'call with a number that is too large is accepted');
like(call_fence($path, $token, 2), qr/ERROR:  40001/, '... and then the holder is refused');
$third->query("UPDATE zk_lock_fences SET grant_number = 3 WHERE path = '$path'");
like(
	$third->query("SELECT zk_lock_fence('$path')"),
	qr/^ERROR:  55000: fence of "$path" is newer.*\nDETAIL:  The lock's fencing token is $token with number 2, the number in zk_lock_fences 3\./m,
	'... and its own fence names the cause');

# Now a backend with its own node, and then another client

my $backend = ZkTest->new($here);
$backend->start("SELECT zk_lock_acquire('$path')");
wait_until('the backend with its own node waits',
	sub { scalar $zk->children($path) == 2 });
my $client = ZkClient->new($zk->hosts);
my $name = $client->create(
	"$path/_c_12345678-1234-1234-1234-123456789abc-lock-",
	'', ZkClient::EPHEMERAL | ZkClient::SEQUENCE);
my $czxid = $client->exists($name)->{czxid};
$second->start("SELECT zk_lock_acquire('$path')");
$second->wait_for_lock;
$third->query("SELECT zk_lock_release('$path')");

# With the long hand-over time, waiters of the same server come first.
is($second->result, 't', 'another backend of the same server gets the lock');
is(join('.', grant_of($second, $path)), "$token.3", '... with the next number');
is(send_grant($second, $path, $token, 3), '', '... and the fence accepts it');
$second->query("SELECT zk_lock_release('$path')");

is($backend->result, 't', 'backend with its own node gets the lock');
my ($own, $zero) = grant_of($backend, $path);
cmp_ok($own, '>', $token, '... with a larger token');
is($zero, '0', '... and number 0');
is($backend->query("SELECT zk_lock_fence('$path')"), $own, '... and the fence accepts it');
is(fence($path), "$own|0|0", '... and records it');
like(
	send_grant($second, $path, $token, 3),
	qr/^DETAIL:  Its fencing token $token is older than $own in zk_lock_fences/m,
	'former holder is refused, whatever its number');
like(call_fence($path, $token), qr/ERROR:  40001/, '... also without a number');
$backend->query("SELECT zk_lock_release('$path')");

wait_until("the client's node is the first",
	sub { join(' ', map { "$path/$_" } $zk->children($path)) eq $name });
cmp_ok($czxid, '>', $own, 'other client gets the lock');
is(call_fence($path, $czxid), '', '... and the fence accepts its czxid');
is(call_fence($path, $czxid), '', '... repeatedly');
is(fence($path), "$czxid|0|0", '... and records it');
like(send_grant($second, $path, $own, 0),
	qr/^ERROR:  40001/m, '... and refuses the former holder');
$client->delete($name);
$client->close;

$first->query("SELECT zk_lock_acquire('$path')");
my ($last) = grant_of($first, $path);
cmp_ok($last, '>', $czxid, 'backend of the first server gets the lock again');
is(send_grant($first, $path, $last, 0), '', '... and the fence accepts it');
like(call_fence($path, $czxid), qr/ERROR:  40001/, '... and refuses the other client');
$_->close for $first, $second, $third, $backend;
wait_for_queue($zk, $path);

# A holder that downgrades a lock handed over to it
my $downgraded = '/number/downgraded';
my ($writer, $reader) = line_up($downgraded, 2, 'write');
$writer->query("SELECT zk_lock_release('$downgraded', 'write')");
is($reader->result, 't', 'write lock is handed over');
$reader->query(
	"SELECT zk_lock_acquire('$downgraded', mode => 'shared');
	 SELECT zk_lock_release('$downgraded', 'write')");
($token, my $number) = grant_of($reader, $downgraded, 'shared');
is($number, '1', '... and keeps its number after a downgrade');
is($reader->query("SELECT zk_lock_fence('$downgraded', 'shared')"),
	$token, '... and the fence accepts it');
my $read = "$token|1|$token";
is( $reader->query(
		"SELECT token, grant_number, shared_token FROM zk_lock_fences
		 WHERE path = '$downgraded'"),
	$read,
	'... and records it as writer and reader');
like(
	$reader->query("SELECT zk_fence('$downgraded', $token, 0)"),
	qr/^ERROR:  40001: .*\nDETAIL:  Its fencing token $token with number 0 is older than number 1/m,
	'... and refuses the former holder');
is($reader->query("SELECT zk_fence('$downgraded', $token, 1)"),
	$token, "... and accepts the same holder's number as a writer");
$_->close for $writer, $reader;

# Many concurrent sessions of both servers: the fence accepts grants in order,
# and refuses none. All rows are in one database, so their order is that of the
# calls.

# Runs transactions of four sessions on the other server and two on this one,
# and returns the number of grants with a number above 0.
sub storm
{
	my ($path) = @_;
	my @sessions;

	$here->safe_psql('postgres', 'TRUNCATE grants RESTART IDENTITY');
	for my $node (($there) x 4, ($here) x 2)
	{
		my $server = $node->name;
		my $table = $node == $here ? 'grants (server, token, number)' : 'granted';
		my $session = ZkTest->new($node);
		my $grant = "zk_lock_token('$path'), zk_lock_grant_number('$path')";

		$session->query('\o /dev/null');
		$session->start(join(";\n", (
			'BEGIN',
			"SELECT zk_lock_guard('$path')",
			"INSERT INTO fence SELECT '$path', $grant",
			"INSERT INTO $table SELECT '$server', $grant",
			'COMMIT') x 25));
		push @sessions, $session;
	}
	is(join('', map { $_->result } @sessions), '', 'no transaction is refused');
	$_->close for @sessions;
	is( $here->safe_psql('postgres', q(
			SELECT count(*), count(*) FILTER (WHERE grew), count(DISTINCT server)
			FROM (SELECT server, coalesce((token, number) >
						 (lag(token) OVER o, lag(number) OVER o), true) AS grew
				  FROM grants WINDOW o AS (ORDER BY n)) g)),
		'150|150|2',
		'... and each grant is newer than the previous one');
	return $here->safe_psql('postgres',
		'SELECT count(*) FROM grants WHERE number > 0');
}

change_setting($there, 'zklock.handover_time', '20ms', $observer);
cmp_ok(storm('/number/storm'), '>', 0, '... by number if the token is the same');
change_setting($there, 'zklock.handover_time', '0', $observer);
is(storm('/number/none'), '0',
	'... without local hand-over the tokens grow and all numbers are 0');

done_testing();
