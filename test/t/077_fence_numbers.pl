# Fences where backends of one server hand a lock over on one node, and so with one
# token: the number of the grant tells who comes late, beside servers whose backends
# have nodes of their own and other clients, who know no numbers.
#
# Runs once: of both modes.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;

# The rows are here, where each backend has a session of its own...
my $here = new_node('here', $zk->hosts, 'zklock.session' => 'backend');

# ... and there all share one, and keep the lock for as long as they want.
my $there = new_node(
	'there', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session' => 'server',
	'zklock.local_handover' => '10min');

# As in docs/fencing.md, and each grant that was let in has a row, by order.
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

# The token and number of a lock that a session holds.
sub grant_of
{
	my ($session, $path, $mode) = @_;

	$mode //= 'exclusive';
	return split(/\|/, $session->query(
		"SELECT zk_lock_token('$path', '$mode'), zk_lock_grant_number('$path', '$mode')"));
}

# The fence that is there, with the tokens of both kinds.
sub fence
{
	my ($path) = @_;

	return $here->safe_psql('postgres',
		"SELECT token, number, shared_token FROM zk_lock_fences WHERE path = '$path'");
}

# Sends a grant to the fence, from the other server.
sub send_grant
{
	my ($session, $path, @grant) = @_;

	return $session->query(
		"INSERT INTO fence VALUES ('$path', $grant[0], $grant[1])");
}

# Comes to the fence here. Returns what it says against that.
sub come
{
	my ($path, @grant) = @_;
	my $args = join(', ', "'$path'", @grant);
	my (undef, undef, $error) = $here->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT zk_fence($args)");

	return $error;
}

# Waits until a session of the other server waits behind others.
sub wait_for_wait
{
	my ($session) = @_;

	$there->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM zk_locks
		 WHERE pid = ${\ $session->pid} AND NOT granted AND node <> ''")
	  or die "it does not wait\n";
	return;
}

# Sessions of the other server, of which the first has the lock and the others
# wait for it in order.
sub line_up
{
	my ($path, $n, $mode) = @_;
	my @sessions = map { ZkTest->new($there) } 1 .. $n;

	$mode //= 'exclusive';
	$sessions[0]->query("SELECT zk_lock_acquire('$path', mode => '$mode')");
	for my $session (@sessions[ 1 .. $n - 1 ])
	{
		$session->start("SELECT zk_lock_acquire('$path', mode => '$mode')");
		wait_for_wait($session);
	}
	return @sessions;
}

# One after the other on one node

my $path = '/number/line';
my ($first, $second, $third) = line_up($path, 3);
my ($token) = grant_of($first, $path);
is( $observer->query(
		qq(SELECT grant_number, grant_number IS NULL, token IS NULL FROM zk_locks
		   WHERE path = '$path' ORDER BY grant_number)),
	"0|f|f\n|t|t\n|t|t",
	'who waits has no number');
for my $number (0 .. 2)
{
	my $session = ($first, $second, $third)[$number];

	is($session->result, 't', 'the next one has the lock') if $number > 0;
	is(join('.', grant_of($session, $path)),
		"$token.$number", '... with the same token and the next number');
	is( $observer->query(
			"SELECT token, grant_number FROM zk_locks WHERE pid = ${\ $session->pid}"),
		"$token|$number",
		'... as others see, too');
	is($session->query("SELECT zk_lock_fence('$path')"),
		$token, '... the fence of its own database lets it in');
	is($session->query('SELECT token, number FROM zk_lock_fences'),
		"$token|$number", '... and records that');
	is(send_grant($session, $path, $token, $number),
		'', '... so does one elsewhere');
	is(fence($path), "$token|$number|0", '... with the number');
	$session->query("SELECT zk_lock_release('$path')") if $number < 2;
}
is(scalar $zk->children($path), 1, 'they had one node, all of them');

# Late ones, who have held the same node
for my $number (0, 1)
{
	like(
		send_grant($first, $path, $token, $number),
		qr/^ERROR:  40001: lock on "$path" was lost\nDETAIL:  Its fencing token $token with number $number is older than number 2 in/m,
		"who comes late with number $number is refused");
}
is(send_grant($third, $path, $token, 2), '', '... but not who holds it');
is($third->query("SELECT zk_lock_fence('$path')"), $token, '... there or here');

# Without the number he may be any of them.
is(come($path, $token), '', 'who comes without a number is not refused');
is(fence($path), "$token|2|0", '... and the number stays');
like(come($path, $token, 1), qr/ERROR:  40001/,
	'... so that who is late with one still is');

# A wrong number is known for one by who holds the lock.
is(come($path, $token, 3), '', 'somebody comes with a number that is too large');
like(come($path, $token, 2), qr/ERROR:  40001/, '... so that the holder is refused');
$third->query("UPDATE zk_lock_fences SET number = 3 WHERE path = '$path'");
like(
	$third->query("SELECT zk_lock_fence('$path')"),
	qr/^ERROR:  55000: fence of "$path" is newer.*\nDETAIL:  The lock's fencing token is $token with number 2, the number in zk_lock_fences 3\./m,
	'... and told why where he holds it');

# Then a backend with a node of its own, and another client with his

my $backend = ZkTest->new($here);
$backend->start("SELECT zk_lock_acquire('$path')");
wait_until('another server waits',
	sub { scalar $zk->children($path) == 2 });
my $client = ZkClient->new($zk->hosts);
my $name = $client->create(
	"$path/_c_12345678-1234-1234-1234-123456789abc-lock-",
	'', ZkClient::EPHEMERAL | ZkClient::SEQUENCE);
my $czxid = $client->exists($name)->{czxid};
$second->start("SELECT zk_lock_acquire('$path')");
wait_for_wait($second);
$third->query("SELECT zk_lock_release('$path')");

# The window is long: those of one server come first.
is($second->result, 't', 'one more there has the lock');
is(join('.', grant_of($second, $path)), "$token.3", '... with the next number');
is(send_grant($second, $path, $token, 3), '', '... and is let in');
$second->query("SELECT zk_lock_release('$path')");

is($backend->result, 't', 'then a backend with its own node');
my ($own, $zero) = grant_of($backend, $path);
cmp_ok($own, '>', $token, '... which has a larger token');
is($zero, '0', '... and number 0');
is($backend->query("SELECT zk_lock_fence('$path')"), $own, '... and is let in');
is(fence($path), "$own|0|0", '... which is recorded');
like(
	send_grant($second, $path, $token, 3),
	qr/^DETAIL:  Its fencing token $token is older than $own in zk_lock_fences/m,
	'who held the node before is refused with any number');
like(come($path, $token), qr/ERROR:  40001/, '... and without');
$backend->query("SELECT zk_lock_release('$path')");

wait_until("the client's node is the first",
	sub { join(' ', map { "$path/$_" } $zk->children($path)) eq $name });
cmp_ok($czxid, '>', $own, 'then another client has the lock');
is(come($path, $czxid), '', '... and is let in with its czxid');
is(come($path, $czxid), '', '... once more');
is(fence($path), "$czxid|0|0", '... which is recorded');
like(send_grant($second, $path, $own, 0),
	qr/^ERROR:  40001/m, '... and refuses who came before');
$client->delete($name);
$client->close;

$first->query("SELECT zk_lock_acquire('$path')");
my ($last) = grant_of($first, $path);
cmp_ok($last, '>', $czxid, 'then those with one node again');
is(send_grant($first, $path, $last, 0), '', '... who are let in');
like(come($path, $czxid), qr/ERROR:  40001/, '... and the client is refused');
$_->close for $first, $second, $third, $backend;
wait_for_queue($zk, $path);

# A reader whose lock was the writer's before
my $downgraded = '/number/downgraded';
my ($writer, $reader) = line_up($downgraded, 2, 'write');
$writer->query("SELECT zk_lock_release('$downgraded', 'write')");
is($reader->result, 't', 'one holds a lock after another one');
$reader->query(
	"SELECT zk_lock_acquire('$downgraded', mode => 'shared');
	 SELECT zk_lock_release('$downgraded', 'write')");
($token, my $number) = grant_of($reader, $downgraded, 'shared');
is($number, '1', '... and has its number still when the lock is downgraded');
is($reader->query("SELECT zk_lock_fence('$downgraded', 'shared')"),
	$token, '... is let in');
my $read = "$token|1|$token";
is( $reader->query(
		"SELECT token, number, shared_token FROM zk_lock_fences
		 WHERE path = '$downgraded'"),
	$read,
	'... and recorded as both');
like(
	$reader->query("SELECT zk_fence('$downgraded', $token, 0)"),
	qr/^ERROR:  40001: .*\nDETAIL:  Its fencing token $token with number 0 is older than number 1/m,
	'... so that who had the lock before is refused');
is($reader->query("SELECT zk_fence('$downgraded', $token, 1)"),
	$token, '... but not who had it himself');
$_->close for $writer, $reader;

# Many of both servers at once: those who are let in come in the order of their
# grants, and nobody is refused. What is written is in one database, so the order
# is that of the rows.

sub set_handover
{
	my ($time) = @_;

	$there->safe_psql('postgres',
		"ALTER SYSTEM SET zklock.local_handover = '$time'");
	$there->reload;
	wait_until('the setting is in force',
		sub { $observer->query('SHOW zklock.local_handover') eq $time });
	return;
}

# Runs transactions of four sessions there and two here, and returns how many
# there were with a number.
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
	is(join('', map { $_->result } @sessions), '', 'nobody is refused');
	$_->close for @sessions;
	is( $here->safe_psql('postgres', q(
			SELECT count(*), count(*) FILTER (WHERE grew), count(DISTINCT server)
			FROM (SELECT server, coalesce((token, number) >
						 (lag(token) OVER o, lag(number) OVER o), true) AS grew
				  FROM grants WINDOW o AS (ORDER BY n)) g)),
		'150|150|2',
		'... and each grant is newer than the one before it');
	return $here->safe_psql('postgres',
		'SELECT count(*) FROM grants WHERE number > 0');
}

set_handover('20ms');
cmp_ok(storm('/number/storm'), '>', 0, '... by its number, if not its token');
set_handover('0');
is(storm('/number/none'), '0',
	'without a hand-over in the server the tokens grow, and there are no numbers');

done_testing();
