# The server's worker is told to end, or cannot do what it should: nobody loses a
# lock for it, nor waits for longer than it takes.
#
# Runs once: of server mode.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

use constant PAIRS => 25;    # of a holder and a waiter, on each server

my $zk = ZkServer->new->start;
my %server = ('zklock.session' => 'server');
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
	't|t', 'a cancelled worker goes on');
is(worker_of($node), $worker, '... as the same process');
is($holder->query($session), $id, '... in the same session');
is($holder->query('SELECT zk_lock_release_all()'), 1, '... and all is held');

# pg_terminate_backend, with many who hold and wait on both servers

my (@holders, @waiters);
for my $n (0 .. 1)
{
	for my $i (1 .. PAIRS)
	{
		my $h = ZkTest->new($nodes[$n]);
		is($h->query("SELECT zk_lock_acquire('/ends/$n/$i')"), 't', 'held');
		push @holders, $h;
	}
}
# Who waits on this server waits for one who holds on this, and on the other.
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

# One who comes meanwhile is kept waiting for a moment, but does not have to wait
# until all others have gone.
my $newcomer = ZkTest->new($node);
my $answer;

# With half a second to wait, another half may be too little for a busy machine, but
# not again and again.
for my $try (1 .. 5)
{
	$answer = $newcomer->query(q(SELECT zk_lock_acquire('/ends/new', '0')));
	last if $answer !~ /^ERROR:  08/;
}
is($answer, 't', 'who comes meanwhile is served, even if he has little time');
$newcomer->close;

is($_->query('SELECT 1'), 1, 'a holder has lost nothing') for @holders;
is(worker_of($nodes[$_]), $workers[$_], 'the worker stays until all have gone')
  for (0, 1);
for my $i (0 .. $#holders)
{
	is($holders[$i]->query('SELECT zk_lock_release_all()'), 1, 'given back');
	is($waiters[$i]->result, 't', 'the waiter has got it');
}
is($_->query('SELECT 1'), 1, '... and has not lost it') for @waiters;
$_->close for @holders, @waiters;
wait_for_other_worker($nodes[$_], $workers[$_]) for (0, 1);
is($holder->query(q(SELECT zk_lock_acquire('/ends/again'), zk_lock_release_all())),
	't|1', 'the next worker serves');
isnt($holder->query($session), $id, '... in a session of its own');
wait_for_calm($_, $zk, map { my $n = $_; map { "/ends/$n/$_" } 1 .. PAIRS } 0, 1)
  for @nodes;

# A session that cannot be begun is told of, and does not end the worker.

$worker = worker_of($node);
my $acquire = q(SELECT zk_lock_acquire('/ends/auth'), zk_lock_release_all());
my $own = ZkTest->new($node, OWN_SESSION);
my $file = $node->data_dir . '/credentials';

# The error without the place in the sources
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
	$node->safe_psql('postgres', "ALTER SYSTEM SET zklock.auth_file = '$name'");
	$node->reload;
	wait_until('the new setting is there',
		sub { $own->query('SHOW zklock.auth_file') eq $name });
	wait_until(
		'the worker has read it, too',
		sub { ($error = error_of($holder)) =~ /^ERROR:  (?!08)/ });
	like($error, qr/^ERROR:  $expected/, 'what is wrong with the file is told');
	is($error, error_of($own), '... as in a session of the backend\'s own');
	is(worker_of($node), $worker, '... by the worker, which goes on');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.auth_file');
	$node->reload;
	wait_until('it is put right', sub { $holder->query($acquire) eq 't|1' });
}
# What is cut off of a long text are whole characters, wherever it is cut.
for my $name ("\xc3\xa4" x 300, 'a' . "\xc3\xa4" x 300)
{
	my $error;

	$node->safe_psql('postgres', "ALTER SYSTEM SET zklock.auth_file = '$name'");
	$node->reload;
	wait_until(
		'a long name is told of',
		sub { ($error = error_of($holder)) =~ /^ERROR:  [^\n]*"${\ substr($name, 0, 3)}/ });
	unlike($error, qr/$name/, 'it is cut');
	ok(utf8::decode($error), '... behind a whole character');
}
$node->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.auth_file');
$node->reload;
wait_until('it is put right', sub { $holder->query($acquire) eq 't|1' });
is(worker_of($node), $worker, '... with the same worker');

done_testing();
