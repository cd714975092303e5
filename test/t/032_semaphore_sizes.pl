# A caller that requests another number of leases for a semaphore than the
# previous one gets a warning, and its lease.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
my ($session, $other, $third) = map { ZkTest->new($node)->connect } 1 .. 3;
my $client = ZkClient->new($zk->hosts);

# The warning for a path if another caller has requested another number
sub warning
{
	my ($path, $ours, $theirs) = @_;

	return
	  qr{^WARNING:  01000: callers name different numbers of leases for semaphore "$path"\nDETAIL:  This one names $ours, and one before it $theirs\.\nHINT:  Unless the number is just being changed}m;
}

sub acquire_lease
{
	my ($path, $leases, $timeout) = @_;

	$timeout = defined $timeout ? ", '$timeout'" : '';
	return "SELECT zk_semaphore_acquire('$path', $leases$timeout)";
}

# Acquires and releases a lease, and returns the result of the acquire.
sub use_lease
{
	my ($caller, $path, $leases) = @_;
	my $result = $caller->query(acquire_lease($path, $leases));

	$caller->query("SELECT zk_semaphore_release('$path')");
	return $result;
}

# Waits until the container stores the number: callers do not wait for that.
sub stores_ok
{
	my ($path, $data, $what) = @_;

	wait_until("$path stores '$data'",
		sub { ($client->get("$path/leases")->{data} // '') eq $data });
	ok(1, $what);
	return;
}

# All callers request the same number
is(use_lease($session, '/agreed', 3), 't', 'first caller gets a lease without a warning');
stores_ok('/agreed', '3', '... and its number is stored');
is(use_lease($_, '/agreed', 3),
	't', '... other callers with this number get no warning') for $other, $session;

# Callers request different numbers
like(use_lease($other, '/agreed', 4), warning('/agreed', 4, 3),
	'caller with another number gets a warning');
stores_ok('/agreed', '4', '... and its number is stored');
is(use_lease($other, '/agreed', 4), 't', '... the same caller gets no second warning');
is(use_lease($third, '/agreed', 4), 't', '... nor does another caller with this number');
like(use_lease($session, '/agreed', 3), warning('/agreed', 3, 4),
	'... but a caller with the old number');
stores_ok('/agreed', '3', '... whose number is stored');
like(use_lease($third, '/agreed', 4), warning('/agreed', 4, 3),
	'... and the next one with the new number');

# Each caller is limited by its own number. A holder that acquires its lease
# again is not limited.
is($session->query(acquire_lease('/own', 1)), 't', 'only lease is acquired');
my $result = $other->query(acquire_lease('/own', 2));
like($result, warning('/own', 2, 1), 'caller with a larger number gets a warning');
like($result, qr/^t$/m, '... and another lease');
stores_ok('/own', '2', '... and its number is stored');
is($other->query(acquire_lease('/own', 5)), 't', '... and the same lease again');
wait_until('the mutex is free', sub { !$zk->children('/own/locks') });
wait_until(
	'ZooKeeper answers in time',
	sub {
		$client->set('/own/leases', '2');
		$result = $third->query(acquire_lease('/own', 1, '0'));
		return $result =~ /^f$/m && $result =~ /WARNING/;
	});
like($result, warning('/own', 1, 2), 'caller that gets no lease gets a warning, too');
is(scalar(() = $result =~ /WARNING/g), 1, '... once');
stores_ok('/own', '1', '... and its number is stored');

# The next try looks before it creates a node. It gets a warning whenever a try with a node
# would.
is($third->query(acquire_lease('/own', 1, '0')), 'f', '... no second warning');
wait_until('the mutex is free', sub { !$zk->children('/own/locks') });
$client->set('/own/leases', '2');
$result = $third->query(acquire_lease('/own', 1, '0'));
like($result, warning('/own', 1, 2), '... but one when another caller has named another number');
is(scalar(() = $result =~ /WARNING/g), 1, '... once');
like($result, qr/^f$/m, '... and no lease');
stores_ok('/own', '1', '... and its number is stored');

# A waiter gets the warning before it is granted a lease.
$third->start(acquire_lease('/own', 2));
wait_until('the waiter gets the warning',
	sub { $third->so_far =~ warning('/own', 2, 1) });
ok(!$third->is_done, 'waiter gets a warning while it waits');
$session->query(q(SELECT zk_semaphore_release('/own')));
is(scalar(() = $third->result =~ /WARNING/g), 1, '... once');
like($third->result, qr/^t$/m, '... and gets its lease');
$_->query('SELECT zk_lock_release_all()') for $session, $other, $third;

# Containers of other clients store no number, or other data.
$client->create("/curator", '');
$client->create("/curator/$_", '') for qw(locks leases);
is(use_lease($session, '/curator', 3), 't', "no warning for Curator's semaphores");
stores_ok('/curator', '3', '... which then store the number');
like(use_lease($session, '/curator', 2), warning('/curator', 2, 3),
	'... and the next caller gets a warning');
stores_ok('/curator', '2', '... and its number is stored');
for my $data ('three', '03', "3\0", "\0\0\0\3", '9999999999', '3' x 2000)
{
	$client->set('/curator/leases', $data);
	is(use_lease($session, '/curator', 2), 't', 'no warning for other data');
	is($client->get('/curator/leases')->{data}, $data, '... which is not changed');
}

# A container that may not be written to can still be used.
my $closed = ZkTest->new($node, OWN_SESSION, 'zklock.acl' => 'world:anyone:cdra');
is(use_lease($closed, '/closed', 2),
	't', 'container that may not be written to is created');
for (1 .. 2)
{
	like(use_lease($session, '/closed', 3), warning('/closed', 3, 2),
		'... caller with another number gets a warning');
}
is($client->get('/closed/leases')->{data}, '2', '... the number is not changed');
like(use_lease($closed, '/closed', 3), qr/^t$/m, '... and leases can be acquired');

# The path of the mutex is longer than that of a lock may be.
my $long = '/' . 'x' x 1023;
is(use_lease($session, $long, 1), 't', 'lease of a semaphore with the longest path');
ok($client->exists("$long/locks"), '... whose mutex is below that path');

done_testing();
