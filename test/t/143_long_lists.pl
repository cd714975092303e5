# Lists of paths that have many children with long names: in the server's session, which has
# one connection, others wait for one of them at most.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

# A list is long from ZKLOCK_LONGLIST_BYTES on, see src/protocol/longlist.h.
my ($children, $name) = (300, 'x' x 900);
my @callers = (1 .. 6);

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node(
	'main', $proxy->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '60s');
my $client = ZkClient->new($zk->hosts);

for my $path ('/short', map { "/long$_" } @callers)
{
	$client->create($path, '');
	if ($path ne '/short')
	{
		$client->create("$path/$_$name", '') for 1 .. $children;
	}
}
my @session = map { ZkTest->new($node)->connect } @callers;
my $other = ZkTest->new($node)->connect;

sub acquire_and_release
{
	my ($path, $mode) = @_;

	return "SELECT zk_lock_acquire('$path', '60s', '$mode'), zk_lock_release('$path', '$mode')";
}

# From the first answer to a list of a long path on, none arrives. Returns the rule.
sub hold_answers
{
	$proxy->mark;
	return $proxy->rule(
		dir => 's2c',
		op => 'getChildren',
		path => '^/long',
		action => 'hold',
		pings => 1);
}

# The lists of such paths that were requested since then
sub lists
{
	my ($path) = @_;

	$proxy->wait_idle;
	return scalar(grep { $_->{op} =~ /^getChildren/ } $proxy->requests(qr/^\/$path/));
}

sub waiting
{
	return $other->query('SELECT count(*) FROM zk_locks WHERE NOT granted');
}

sub wait_for_waiters
{
	my ($n) = @_;

	wait_until("$n wait", sub { waiting() == $n });
	return;
}

# Which paths are long is known when they have been listed.
is($session[0]->query(acquire_and_release("/long$_", 'exclusive')), 't|t', "/long$_ is locked")
  for @callers;

# Several paths
my $rule = hold_answers();
$session[$_ - 1]->start(acquire_and_release("/long$_", 'write')) for @callers;
wait_until('a list is answered', sub { $proxy->fired($rule) });
wait_for_waiters(scalar(@callers));
is(lists('long'), 1, 'of the lists of several long paths, one is under way');

# Who gives up has not ended the list.
$other->query("SELECT pg_cancel_backend(${\ $_->pid})") for @session[ 0 .. 2 ];
$_->result for @session[ 0 .. 2 ];
$session[$_ - 1]->start(acquire_and_release("/long$_", 'write')) for 1 .. 3;
wait_for_waiters(scalar(@callers));
is(lists('long'), 1, '... also when their callers give up, and try again');
$other->start(acquire_and_release('/short', 'exclusive'));
wait_until('a short path is requested', sub { lists('short') == 1 });
pass('the list of a short path does not wait');
$proxy->reset;
is($other->result, 't|t', '... and is locked');
is($_->result, 't|t', 'all are locked in the end') for @session;

# One path
$rule = hold_answers();
$_->start(acquire_and_release('/long1', 'shared')) for @session;
wait_until('a list is answered', sub { $proxy->fired($rule) });
wait_for_waiters(scalar(@callers));
is(lists('long'), 1, 'the same for readers of one path');
$proxy->reset;
is($_->result, 't|t', '... and all are locked in the end') for @session;

# It is the last list that counts.
for my $i (1 .. 2)
{
	$client->delete("/long$i/$_") for $zk->children("/long$i");
	is($session[0]->query(acquire_and_release("/long$i", 'exclusive')), 't|t', "/long$i is short now");
}
$rule = hold_answers();
$session[$_ - 1]->start(acquire_and_release("/long$_", 'write')) for 1 .. 2;
wait_until('a list is answered', sub { $proxy->fired($rule) });
wait_until('the other one is requested', sub { lists('long') == 2 });
pass('the lists of paths that are short now do not wait for each other');
$proxy->reset;
is($session[$_ - 1]->result, 't|t', '... and they are locked') for 1 .. 2;

done_testing();
