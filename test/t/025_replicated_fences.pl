# Fences with logical replication, such as a publication FOR ALL TABLES: the
# fences of both servers are merged, and no conflict stops the replication.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my %conf = (
	wal_level => 'logical',
	max_wal_senders => 8,
	wal_retrieve_retry_interval => '100ms');
my $here = new_node('here', $zk->hosts, %conf);
my $there = new_node('there', $zk->hosts, %conf);

# Returns the fences: the tokens and numbers of exclusive holders, and the
# tokens of shared holders.
sub fences
{
	my ($node) = @_;

	return $node->safe_psql('postgres',
		'SELECT path, token, grant_number, shared_token FROM zk_lock_fences ORDER BY path');
}

sub fence
{
	my ($node, $path, $token, $number) = @_;

	$number //= 0;
	$node->safe_psql('postgres', "SELECT zk_fence('$path', $token, $number)");
	return;
}

# Waits until all changes that were committed here have been applied there: the
# inserted row is the last one.
my $rows = 0;

sub replicate
{
	$here->safe_psql('postgres', "INSERT INTO sales VALUES (${\ ++$rows})");
	$there->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM sales WHERE n = $rows")
	  or die "changes are not replicated\n";
	return;
}

sub subscribe
{
	my ($node, $name, $other) = @_;

	$node->safe_psql('postgres', sprintf(
		q(CREATE SUBSCRIPTION %s CONNECTION '%s dbname=postgres' PUBLICATION %s),
		$name, $other->connstr, $name));
	return;
}

# Each server has fences before tables are copied.

$_->safe_psql('postgres', 'CREATE TABLE sales (n int PRIMARY KEY)')
  for $here, $there;
fence($here, "/$_", 5) for qw(both only_here older_here);
fence($here, '/number', 5, 2);
fence($here, '/number_here', 5, 1);
fence($there, '/both', 5);
fence($there, '/only_there', 5);
fence($there, '/older_here', 6);
fence($there, '/number', 5, 1);
fence($there, '/number_here', 5, 2);
$here->safe_psql('postgres', 'CREATE PUBLICATION forth FOR ALL TABLES');
subscribe($there, 'forth', $here);
$there->poll_query_until('postgres',
	q(SELECT count(*) = 2 FROM pg_subscription_rel WHERE srsubstate = 'r'))
  or die "tables are not copied\n";
is( fences($there),
	"/both|5|0|0\n/number|5|2|0\n/number_here|5|2|0\n"
	  . "/older_here|6|0|0\n/only_here|5|0|0\n/only_there|5|0|0",
	'initial copy is merged with existing fences');
replicate();

# Later changes

fence($here, '/only_there', 4);
fence($here, '/new', 7);
fence($here, '/both', 8);
fence($here, '/older_here', 5);
fence($here, '/number', 6, 1);
fence($here, '/number_here', 5, 3);
my $session = ZkTest->new($here);
$session->query(
	q(SELECT zk_lock_acquire('/shared', mode => 'shared');
	  SELECT zk_lock_fence('/shared', 'shared')));
my $token = $session->query(q(SELECT zk_lock_token('/shared', 'shared')));
$session->close;
replicate();
is( fences($there),
	"/both|8|0|0\n/new|7|0|0\n/number|6|1|0\n/number_here|5|3|0\n"
	  . "/older_here|6|0|0\n/only_here|5|0|0\n/only_there|5|0|0\n"
	  . "/shared|0|0|$token",
	'new, older and newer rows are merged');
my ($result, undef, $error) =
  $there->psql('postgres', q(SELECT zk_fence('/both', 7)));
like($error, qr/Its fencing token 7 is older than 8 in zk_lock_fences/,
	'... and refuse older holders on the other server');
($result, undef, $error) =
  $there->psql('postgres', q(SELECT zk_fence('/number_here', 5, 2)));
like($error, qr/with number 2 is older than number 3 in zk_lock_fences/,
	'... and holders with the same token and a smaller number');
is( $there->safe_psql('postgres', q(
		SELECT count(*) FROM zk_lock_fences
		WHERE fenced_at NOT BETWEEN now() - interval '10 minutes' AND now())),
	'0', '... and fenced_at is plausible in each');

$here->safe_psql('postgres',
	q(DELETE FROM zk_lock_fences; SELECT zk_fence('/both', 3)));
replicate();
like(fences($there), qr{^/both\|8\|0\|0\n/new},
	'deletion is not applied to the other server');
is(fences($here), '/both|3|0|0', '... but to the server itself');

$there->safe_psql('postgres', 'DELETE FROM zk_lock_fences');
fence($here, '/both', 4);
fence($here, '/new', 4);
replicate();
is(fences($there), '/new|4|0|0',
	'change of a missing row is skipped');

# In both directions, a merged row comes back only once.

fence($there, '/both', 9);
$there->safe_psql('postgres',
	'CREATE PUBLICATION back FOR TABLE zk_lock_fences');
subscribe($here, 'back', $there);
$here->poll_query_until('postgres',
	q(SELECT token = 9 FROM zk_lock_fences WHERE path = '/both'))
  or die "tables are not copied\n";
$here->poll_query_until('postgres',
	q(SELECT count(*) = 1 FROM pg_subscription_rel WHERE srsubstate = 'r'))
  or die "tables are not copied\n";
is(fences($here), "/both|9|0|0\n/new|4|0|0", 'fences are merged in the other direction');

fence($here, '/both', 10);
fence($there, '/new', 10);
fence($there, '/both', 11, 1);
fence($here, '/both', 11, 2);
for my $node ($here, $there)
{
	$node->poll_query_until('postgres',
		q(SELECT string_agg(path || token || '.' || grant_number, ' ' ORDER BY path)
		  = '/both11.2 /new10.0' FROM zk_lock_fences))
	  or die "the fences differ: ${\ fences($node)}\n";
}
pass('both servers have the same fences');

# Changes that are already on their way arrive before those sent later.
sub round_trip
{
	my ($path) = @_;

	for ([ $here, $there ], [ $there, $here ])
	{
		my ($from, $to) = @$_;

		fence($from, "$path/${\ $from->name}", 1);
		$to->poll_query_until('postgres', qq(
			SELECT count(*) = 1 FROM zk_lock_fences
			WHERE path = '$path/${\ $from->name}'))
		  or die "changes are not replicated\n";
	}
	return;
}

# Returns the rows with the transactions that wrote them last.
sub versions
{
	return join("\n", map {
		$_->safe_psql('postgres', q(
			SELECT path, xmin FROM zk_lock_fences
			WHERE path !~ '/trip' ORDER BY path))
	} $here, $there);
}

round_trip('/trip_1');
my $before = versions();
round_trip('/trip_2');
round_trip('/trip_3');
is(versions(), $before, 'no change circulates between the servers');

for my $node ($here, $there)
{
	unlike(slurp_file($node->logfile), qr/ERROR:  (duplicate|deadlock)|PANIC/,
		'no replication worker failed');
}
$_->safe_psql('postgres', 'DROP SUBSCRIPTION ' . ($_ == $here ? 'back' : 'forth'))
  for $here, $there;

done_testing();
