# Who names another number of leases for a semaphore than the one before is told so,
# and gets his lease all the same.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(container_check => 3_600_000)->start;
my $node = new_node('main', $zk->hosts);
my ($session, $other, $third) = map { ZkTest->new($node)->connect } 1 .. 3;
my $client = ZkClient->new($zk->hosts);

# What is said of a path where others have named another number
sub told
{
	my ($path, $ours, $theirs) = @_;

	return
	  qr{^WARNING:  01000: callers name different numbers of leases for semaphore "$path"\nDETAIL:  This one names $ours, and one before it $theirs\.\nHINT:  Unless the number is just being changed}m;
}

sub acquire
{
	my ($path, $leases, $timeout) = @_;

	$timeout = defined $timeout ? ", '$timeout'" : '';
	return "SELECT zk_semaphore_acquire('$path', $leases$timeout)";
}

# Takes a lease and gives it back: what was said?
sub come_and_go
{
	my ($who, $path, $leases) = @_;
	my $said = $who->query(acquire($path, $leases));

	$who->query("SELECT zk_semaphore_release('$path')");
	return $said;
}

# The container says it, in the end: nobody waits for that.
sub says_ok
{
	my ($path, $data, $what) = @_;

	wait_until("$path says '$data'",
		sub { ($client->get("$path/leases")->{data} // '') eq $data });
	ok(1, $what);
	return;
}

# All agree
is(come_and_go($session, '/agreed', 3), 't', 'the first names a number');
says_ok('/agreed', '3', '... which is there to be read');
is(come_and_go($_, '/agreed', 3), 't', '... the same is no news') for $other, $session;

# They do not
like(come_and_go($other, '/agreed', 4), told('/agreed', 4, 3), 'another number');
says_ok('/agreed', '4', '... is what is named now');
is(come_and_go($other, '/agreed', 4), 't', '... and said once');
is(come_and_go($third, '/agreed', 4), 't', '... if all change to it');
like(come_and_go($session, '/agreed', 3), told('/agreed', 3, 4), '... but who does not');
says_ok('/agreed', '3', '... makes himself heard');
like(come_and_go($third, '/agreed', 4), told('/agreed', 4, 3), '... again and again');

# Each is let in by his own, as before; once he holds a lease he is not asked again.
is($session->query(acquire('/own', 1)), 't', 'the only lease');
my $said = $other->query(acquire('/own', 2));
like($said, told('/own', 2, 1), 'by another number');
like($said, qr/^t$/m, '... there is one more');
says_ok('/own', '2', '... which is there to be read');
is($other->query(acquire('/own', 5)), 't', '... and one that is held already');
wait_until('nobody is coming in', sub { !$zk->children('/own/locks') });
wait_until(
	'ZooKeeper answers in time',
	sub {
		$client->set('/own/leases', '2');
		$said = $third->query(acquire('/own', 1, '0'));
		return $said =~ /^f$/m && $said =~ /WARNING/;
	});
like($said, told('/own', 1, 2), 'who is not let in is told, too');
is(scalar(() = $said =~ /WARNING/g), 1, '... once');
says_ok('/own', '1', '... and is heard');

# Who waits knows before he is through.
$third->start(acquire('/own', 2));
wait_until('he is told while he waits',
	sub { $third->so_far =~ told('/own', 2, 1) });
ok(!$third->is_done, 'who waits is told before that');
$session->query(q(SELECT zk_semaphore_release('/own')));
is(scalar(() = $third->result =~ /WARNING/g), 1, '... once');
like($third->result, qr/^t$/m, '... and gets his lease in the end');
$_->query('SELECT zk_lock_release_all()') for $session, $other, $third;

# The containers of others say nothing, or something that is not ours.
$client->create("/curator", '');
$client->create("/curator/$_", '') for qw(locks leases);
is(come_and_go($session, '/curator', 3), 't', "nothing is said of Curator's semaphores");
says_ok('/curator', '3', '... which are told the number');
like(come_and_go($session, '/curator', 2), told('/curator', 2, 3), '... for the next');
says_ok('/curator', '2', '... who is heard');
for my $data ('three', '03', "3\0", "\0\0\0\3", '9999999999', '3' x 2000)
{
	$client->set('/curator/leases', $data);
	is(come_and_go($session, '/curator', 2), 't', 'nothing is said of other data');
	is($client->get('/curator/leases')->{data}, $data, '... which stays');
}

# Who may not write to it is no worse off.
my $closed = ZkTest->new($node, OWN_SESSION, 'zklock.acl' => 'world:anyone:cdra');
is(come_and_go($closed, '/closed', 2), 't', 'a container that nobody may write to');
for (1 .. 2)
{
	like(come_and_go($session, '/closed', 3), told('/closed', 3, 2), '... says a number');
}
is($client->get('/closed/leases')->{data}, '2', '... which stays');
like(come_and_go($closed, '/closed', 3), qr/^t$/m, '... and leases are to be had');

done_testing();
