# Semaphores whose size is a count in ZooKeeper, which changes while they are in use.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(container_check => 3_600_000)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $zk->hosts);
my @s = map { ZkTest->new($node)->connect } 0 .. 3;
my $client = ZkClient->new($zk->hosts);

sub acquire
{
	my ($path, $timeout) = @_;

	$timeout = defined $timeout ? ", '$timeout'" : '';
	return "SELECT zk_semaphore_acquire_counted('$path', '/limits/c'$timeout)";
}

# Tries, until ZooKeeper has answered in time: there is no room.
sub no_room_ok
{
	my ($session, $path, $timeout, $what) = @_;
	my $answer;

	wait_until(
		'ZooKeeper answers',
		sub {
			$answer = $session->query(acquire($path, $timeout));
			return $answer !~ /^ERROR:  08/;
		});
	return is($answer, 'f', $what);
}

sub release
{
	my ($session, $path) = @_;

	is($session->query("SELECT zk_semaphore_release('$path')"), 't', 'one leaves');
	return;
}

sub set
{
	my ($n) = @_;

	return is($s[3]->query("SELECT zk_shared_count_set('/limits/c', $n)"),
		'', "the count says $n");
}

# There are so many leases, those that are waited for among them.
sub wait_for_leases
{
	my ($path, $n) = @_;

	wait_until("there are $n leases",
		sub { $n == (my @leases = $zk->children("$path/leases")) });
	return;
}

# Starts to wait, and returns when it is known that there is no room.
sub wait_in_line
{
	my ($session, $path) = @_;

	$session->start(acquire($path));
	wait_until(
		'it waits',
		sub {
			$s[3]->query("SELECT true FROM zk_lock_queue('$path')
				WHERE state = 'waiter' AND mode = 'semaphore'
				  AND pid = ${\ $session->pid}") eq 't';
		});
	wait_until('it watches',
		sub { $zk->four_letter('wchp') =~ m{^/limits/c$}m });
	return;
}

sub nothing_left_ok
{
	my ($path, $what) = @_;

	wait_until("no nodes are left at $path",
		sub { !map { $zk->children("$path/$_") } qw(locks leases) });
	wait_until('no watches are left',
		sub { $zk->four_letter('wchs') =~ /^Total watches:0$/m });
	return ok(1, $what);
}

# What there is to be counted
is($s[0]->query(q(SELECT zk_shared_count('/limits/c') IS NULL)),
	't', 'there is no count');
like($s[0]->query(acquire('/c')),
	qr{^ERROR:  42704: count of leases "/limits/c" does not exist\nDETAIL:  .*"/c" has\.\nHINT:  Make it with zk_shared_count_set}m,
	'... which is an error');
nothing_left_ok('/c', '... that leaves nothing');
set(2);
is($client->get('/limits/c')->{data}, "\0\0\0\2", '... as Curator has it');
is($client->get('/limits/c')->{ephemeralOwner}, 0, '... in a node that stays');
is($s[0]->query(q(BEGIN READ ONLY; SELECT zk_shared_count('/limits/c'); COMMIT)),
	'2', '... to be read');

# So many
is($s[$_]->query(acquire('/c')), 't', 'one gets in') for 0, 1;
no_room_ok($s[2], '/c', $_, "... but no third in $_") for '0', '1s';
is($s[0]->query(acquire('/c')), 't', 'who is in gets in again');
release($s[0], '/c');
is($client->get('/c/leases')->{data} // '', '', 'the number is named nowhere else');

# Raising
wait_in_line($s[2], '/c');
set(3);
is($s[2]->result, 't', '... and who waits gets in');
wait_for_leases('/c', 3);

# Lowering
set(1);
is($s[3]->query(q(
		SELECT count(*) FROM zk_lock_queue('/c') WHERE state = 'holder')),
	'3', '... which takes nothing from those who are in');
no_room_ok($s[3], '/c', '0', '... and lets nobody in');
release($s[0], '/c');
wait_for_leases('/c', 2);
wait_in_line($s[0], '/c');
release($s[1], '/c');
wait_for_leases('/c', 2);
is($s[3]->query(q(
		SELECT count(*) FILTER (WHERE state = 'holder'),
			count(*) FILTER (WHERE state = 'waiter')
		FROM zk_lock_queue('/c') WHERE mode = 'semaphore')),
	'1|1', '... as long as there is one');
ok(!$s[0]->is_done, '... who waits, waits');
release($s[2], '/c');
is($s[0]->result, 't', '... until all are out');
release($s[0], '/c');

# Zero shuts it.
set(0);
wait_in_line($s[0], '/c');
is($s[1]->query(q(SELECT zk_semaphore_acquire('/c2', 1))),
	't', 'what has another size is open');
set(1);
is($s[0]->result, 't', '... and the other is again');
no_room_ok($s[1], '/c', '0', '... for one');
$_->query('SELECT zk_lock_release_all()') for @s;
nothing_left_ok('/c', 'nothing is left');

# It goes with the transaction.
is($s[0]->query(q(BEGIN; SELECT zk_semaphore_acquire_counted('/c', '/limits/c', NULL,
			'transaction'); COMMIT)), 't', 'a lease in a transaction');
nothing_left_ok('/c', '... goes with it');

# One count for two semaphores: the watch is there as long as one of them needs it.
set(0);
wait_in_line($s[0], '/c/a');
wait_in_line($s[1], '/c/b');
kill('INT', $s[0]->pid);
like($s[0]->result, qr/^ERROR:  57014/, 'one wait is cancelled');
wait_until('it leaves nothing', sub { !$zk->children('/c/a/leases') });
set(1);
is($s[1]->result, 't', '... and the other is told');
$_->query('SELECT zk_lock_release_all()') for @s;
nothing_left_ok("/c/$_", 'nothing is left') for qw(a b);

# What is there may be no count.
sub refused
{
	my ($what) = @_;

	return like($s[0]->result, qr{^ERROR:  55000: "/limits/c" is not a count of leases\nDETAIL:  A count is a node that stays, with four bytes}m, $what);
}
for my $data ('', '123', '12345', "\xff\xff\xff\xff")
{
	my $length = length($data);

	$client->set('/limits/c', $data);
	$s[0]->start(acquire('/c'));
	refused("$length bytes are no number of leases");
	$client->set('/limits/c', "\0\0\0\0");
	wait_in_line($s[0], '/c');
	$client->set('/limits/c', $data);
	refused('... nor while it is waited for');
	if ($length == 4)
	{
		is($s[0]->query(q(SELECT zk_shared_count('/limits/c'))),
			'-1', '... but to be looked at, and set');
		next;
	}
	$s[0]->start(q(SELECT zk_shared_count('/limits/c')));
	refused('... nor to be looked at');
	$s[0]->start(q(SELECT zk_shared_count_set('/limits/c', 5)));
	refused('... nor to be set');
	is($client->get('/limits/c')->{data} // '', $data, '... and it stays');
	$client->set('/limits/c', "\0\0\0\0");
}
set(0);
wait_in_line($s[0], '/c');
$client->delete('/limits/c');
like($s[0]->result, qr{^ERROR:  42704: count of leases "/limits/c"}m,
	'one that is deleted is missed by who waits');
nothing_left_ok('/c', '... who leaves nothing');
like($s[0]->query(q(SELECT zk_shared_count_set('/limits/c', -1))),
	qr/^ERROR:  22023: count must not be negative$/m, 'none is made negative');
my $count = $s[0]->query(q(
	SELECT zk_lock_acquire('/limits/simple', mode => 'simple'), zk_shared_count('/limits/simple')));
like($count, qr/^ERROR:  55000:/m, 'a lock is no count');
like($s[0]->query(q(SELECT zk_semaphore_acquire_counted('/c', NULL))),
	qr/^ERROR:  22004: path of a count must not be null$/m, 'nor is null');

# What may not be read, or written, and what cannot be made
for my $acl ('cdwa', 'cdra')
{
	my $maker =
	  ZkTest->new($node, OWN_SESSION, 'zklock.acl' => "world:anyone:$acl");

	is($maker->query("SELECT zk_shared_count_set('/limits/$acl', 1)"),
		'', "a count for which everybody has $acl");
	$maker->close;
}
like($s[0]->query(q(SELECT zk_semaphore_acquire_counted('/c', '/limits/cdwa'))),
	qr{^ERROR:  28000: could not lock "/c"\nDETAIL:  ZooKeeper refused to read "/limits/cdwa": }m,
	'... cannot be read');
like($s[0]->query(q(SELECT zk_shared_count_set('/limits/cdra', 2))),
	qr{^ERROR:  28000: could not set count "/limits/cdra"\nDETAIL:  ZooKeeper refused to write to "/limits/cdra": }m,
	'... cannot be written to');
is($s[0]->query(q(SELECT zk_semaphore_acquire_counted('/c', '/limits/cdra'),
			zk_semaphore_release('/c'))), 't|t', '... but used');
my $lost = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $zk->hosts . '/none');
like($lost->query(q(SELECT zk_shared_count_set('/limits/c', 1))),
	qr{^ERROR:  42704: could not create count "/limits/c" in ZooKeeper$}m,
	'nothing is made without a chroot');
$lost->close;
nothing_left_ok('/c', 'nothing is left');

# A connection that is lost, and what changes meanwhile.
set(0);
my ($far_node, %settings) = with_settings($node, 'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '40s');
my $far = ZkTest->new($far_node, %settings)->connect;
for my $when ('before', 'while', 'after')
{
	wait_in_line($far, '/c');
	$proxy->wait_idle;
	$proxy->mark;
	if ($when eq 'before')
	{
		# Nobody hears of it, and the connection goes.
		my $rule = $proxy->rule(dir => 's2c', op => 'event', action => 'drop');
		set(1);
		wait_until('the event is lost', sub { $proxy->fired($rule) });
	}
	else
	{
		$proxy->refuse;
		$proxy->cut;
		set(1) if $when eq 'while';
		$proxy->accept;
		$proxy->wait_frame(dir => 's2c', op => 'getChildren') if $when eq 'after';
		set(1) if $when eq 'after';
	}
	is($far->result, 't', "a count that is raised $when the connection is lost");
	$far->query(q(SELECT zk_semaphore_release('/c')));
	$proxy->reset;
	set(0);
}
nothing_left_ok('/c', '... and nothing is left');

done_testing();
