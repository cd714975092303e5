# The server's worker is terminated, or cannot begin a session: no backend
# loses a lock, or waits longer than necessary.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

use constant PAIRS => 25;    # of a holder and a waiter, on each server

my $zk = ZkServer->new->start;
my %server = ('zklock.session_mode' => 'server');
my @nodes =
  map { new_node($_, $zk->hosts, %server, max_connections => 3 * PAIRS) }
  qw(a b);
my ($node, $other) = @nodes;

# pg_cancel_backend

my $holder = ZkTest->new($node);
my $worker = worker_of($node);
my $session = q(SELECT session_id FROM zk_session());
$holder->query(q(SELECT zk_lock_acquire('/ends/cancel')));
my $id = $holder->query($session);
$node->safe_psql('postgres', "SELECT pg_cancel_backend($worker)");
is( $holder->query(
		q(SELECT zk_lock_acquire('/ends/other'), zk_lock_release('/ends/other'))),
	't|t', 'cancelled worker continues');
is(worker_of($node), $worker, '... as the same process');
is($holder->query($session), $id, '... in the same session');
is($holder->query('SELECT zk_lock_release_all()'), 1, '... and all locks are held');

# pg_terminate_backend, with many holders and waiters on both servers

my (@holders, @waiters);
for my $n (0 .. 1)
{
	for my $i (1 .. PAIRS)
	{
		my $h = ZkTest->new($nodes[$n]);
		is($h->query("SELECT zk_lock_acquire('/ends/$n/$i')"), 't', 'lock is acquired');
		push @holders, $h;
	}
}
# Half of the waiters on each server wait for a holder of the same server, half
# for one of the other.
for my $n (0 .. 1)
{
	for my $i (1 .. PAIRS)
	{
		my $w = ZkTest->new($nodes[ $i % 2 ? $n : 1 - $n ]);
		$w->start("SELECT zk_lock_acquire('/ends/$n/$i')");
		push @waiters, $w;
	}
}
for my $n (0 .. 1)
{
	wait_until(
		"all wait on server $n",
		sub {
			$nodes[$n]->safe_psql('postgres',
				'SELECT count(*) FROM zk_locks WHERE NOT granted') == PAIRS;
		});
}
my @workers = map { worker_of($_) } @nodes;
$nodes[$_]->safe_psql('postgres', "SELECT pg_terminate_backend($workers[$_])")
  for (0, 1);

# A newcomer is delayed for a moment, but need not wait until all others have
# released their locks.
my $newcomer = ZkTest->new($node);
my $answer;

# With a timeout of '0', half a second to wait for ZooKeeper can be too little
# on a busy machine, but not five times in a row.
for my $try (1 .. 5)
{
	$answer = $newcomer->query(q(SELECT zk_lock_acquire('/ends/new', '0')));
	last if $answer !~ /^ERROR:  08/;
}
is($answer, 't', 'newcomer with a short timeout is served during the planned end');
$newcomer->close;

is($_->query('SELECT 1'), 1, 'holder has lost no lock') for @holders;
is(worker_of($nodes[$_]), $workers[$_], 'worker continues until all locks are released')
  for (0, 1);
for my $i (0 .. $#holders)
{
	is($holders[$i]->query('SELECT zk_lock_release_all()'), 1, 'lock is released');
	is($waiters[$i]->result, 't', 'waiter is granted the lock');
}
is($_->query('SELECT 1'), 1, '... and has not lost it') for @waiters;
$_->close for @holders, @waiters;
wait_for_other_worker($nodes[$_], $workers[$_]) for (0, 1);
is($holder->query(q(SELECT zk_lock_acquire('/ends/again'), zk_lock_release_all())),
	't|1', 'next worker serves requests');
isnt($holder->query($session), $id, '... in a new session');
wait_until_idle($_, $zk, map { my $n = $_; map { "/ends/$n/$_" } 1 .. PAIRS } 0, 1)
  for @nodes;

# If a session cannot begin, backends get the error, and the worker continues.

$worker = worker_of($node);
my $acquire = q(SELECT zk_lock_acquire('/ends/auth'), zk_lock_release_all());
my $own = ZkTest->new($node, OWN_SESSION);
my $file = $node->data_dir . '/credentials';

# Returns the error without its context and location.
sub error_of
{
	my ($session) = @_;

	return $session->query($acquire) =~ s/^(CONTEXT|LOCATION): .*\n?//gmr;
}

append_to_file($file, "digest:a:b\n");
for my $case (
	[ 'no_such_file', 0600, '58P01: could not open credentials file "no_such_file": .*' ],
	[ $file, 0000, '42501: could not open credentials file "[^"]+": .*' ],
	[ $file, 0644, 'F0000: credentials file "[^"]+" has group or world access\nDETAIL:  File must .*' ])
{
	my ($name, $mode, $expected) = @$case;
	my $error;

	chmod($mode, $file);
	change_setting($node, 'zklock.auth_file', $name, $own);
	wait_until(
		'the worker has read it, too',
		sub { ($error = error_of($holder)) =~ /^ERROR:  (?!08)/ });
	like($error, qr/^ERROR:  $expected/, 'backend gets the error about the file');
	is($error, error_of($own), "... the same as in a session of the backend's own");
	is(worker_of($node), $worker, '... from the worker, which continues');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.auth_file');
	$node->reload;
	wait_until('the setting is reset', sub { $holder->query($acquire) eq 't|1' });
}
# A long text is cut off after a complete character.
for my $name ("\xc3\xa4" x 300, 'a' . "\xc3\xa4" x 300)
{
	my $error;

	change_setting($node, 'zklock.auth_file', $name);
	wait_until(
		'an error shows the long name',
		sub { ($error = error_of($holder)) =~ /^ERROR:  [^\n]*"${\ substr($name, 0, 3)}/ });
	unlike($error, qr/$name/, 'long name is cut');
	ok(utf8::decode($error), '... after a complete character');
}
$node->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.auth_file');
$node->reload;
wait_until('the setting is reset', sub { $holder->query($acquire) eq 't|1' });
is(worker_of($node), $worker, 'worker is the same process');

done_testing();
