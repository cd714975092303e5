# Every frame of every operation is lost in turn, together with its connection:
# each operation has the same result as without the loss.
#
# The proxy numbers the frames that pass. A sweep loses frame 1, 2 and so on,
# and ends when an operation completes before there was a frame of that number.
# So the number of frames need not be known.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: of the frames that can be lost after another
# one, each twentieth is, from one on that is drawn.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

# Of the frames that are lost after another one, one in so many is.
use constant STEP => 20;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $zk->hosts,
	'zklock.session_mode' => 'backend',    # watches are counted
	'zklock.session_timeout' => '30s');

# Only the victim's frames are lost.
my ($victims_node, %settings) = with_settings(
	$node,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '30s');
my $victim = ZkTest->new($victims_node, %settings);
$victim->query('CREATE TABLE stock (n int); INSERT INTO stock VALUES (0)');
my ($holder, $second, $third, $rival) = map { ZkTest->new($node) } (1 .. 4);
my $client = ZkClient->new($zk->hosts);

my $state = 'SELECT state FROM zk_session()';
my $rounds = 0;      # number of operations so far
my $commits = 0;
my $lost = '';       # the frame that is lost in this round
my @problems;        # of this sweep

# Records an unexpected result. An operation that never ends makes the test
# fail.
sub expect
{
	my ($what, $got, $expected) = @_;

	push @problems, "$lost: $what: $got" if $got ne $expected;
	return;
}

sub answers
{
	my ($session, $sql, $expected) = @_;

	expect($sql, $session->query($sql), $expected);
	return;
}

# The statement that acquires a lock of each kind on a path, with a timeout
my %take = (
	exclusive => q(SELECT zk_lock_acquire('%s', %s)),
	all => q(SELECT zk_lock_acquire_all('{%1$s/1, %1$s/2, %1$s/3}', %2$s)),
	write => q(SELECT zk_lock_acquire('%s', %s, 'write')),
	simple => q(SELECT zk_lock_acquire('%s/simple', %s, 'simple')),
	semaphore => q(SELECT zk_semaphore_acquire('%s', 1, %s)),
	counted => q(SELECT zk_semaphore_acquire_counted('%1$s', '/counts%1$s', %2$s)));

sub take
{
	my ($kind, $path, $timeout) = @_;

	return sprintf($take{$kind}, $path, $timeout // 'NULL');
}

# Returns the nodes of a lock, each with its name and its session.
sub nodes
{
	my ($kind, $path) = @_;
	my $dir = $kind =~ /^(?:semaphore|counted)$/ ? "$path/leases" : $path;
	my %stat = map { $_ => $client->exists("$dir/$_") } $client->children($dir);

	return
	  map { sprintf('%s|0x%x', $_, $stat{$_}{ephemeralOwner}) }
	  grep { $stat{$_} } keys %stat;
}

# Returns a function that checks the number of nodes.
sub are_there
{
	my ($n, @lock) = @_;

	return sub { $n == (my @nodes = nodes(@lock)) };
}

# Checks that the victim holds a lock: the only node is the one that zk_locks
# shows, it belongs to the victim's session, and the rival cannot acquire the
# lock.
sub holds
{
	my ($kind, $path) = @_;
	my $node = $victim->query(
		"SELECT node, zk_session.session_id FROM zk_locks, zk_session()
		 WHERE path LIKE '$path%' AND NOT lost");

	answers($rival, take($kind, $path, q('0')), 'f');
	wait_until("$node is the only node",
		sub { join(' ', nodes($kind, $path)) eq $node });
	return;
}

# Checks that the victim has left no node: the rival can acquire the lock.
sub is_free
{
	my ($kind, $path) = @_;

	answers($rival, take($kind, $path, q('1 min')), 't');
	wait_until('the rival has the only node', are_there(1, $kind, $path));
	$rival->query('SELECT zk_lock_release_all()');
	return;
}

sub holds_and_releases
{
	my ($kind, @paths) = @_;

	holds($kind, $_) for @paths;
	answers($victim, 'SELECT zk_lock_release_all()', scalar(@paths));
	is_free($kind, $_) for @paths;
	return;
}

sub granted
{
	my ($kind, $path) = @_;

	answers($victim, take($kind, $path), 't');
	holds_and_releases($kind, $path);
	return;
}

sub not_granted
{
	my ($path, $timeout) = @_;

	my $sql = take('exclusive', $path, $timeout);
	my $answer = $victim->query($sql);

	# If a frame was lost, the reconnect may be too late to learn of the holder
	# in time.
	expect($sql, $answer, 'f') if $answer !~ /^ERROR:  08006:/;
	wait_for_queue($client, $path, $holder);
	return;
}

# Starts a statement that has to wait, and returns when it waits.
sub wait_in_line
{
	my ($sql, $does_wait) = @_;

	$victim->start($sql);
	wait_until('the victim waits', $does_wait);
	return;
}

# Returns a function that checks the number of watches.
sub are_watched
{
	my ($n) = @_;

	return sub {
		$zk->four_letter('wchs') =~ /^Total watches:(\d+)/m && $1 >= $n;
	};
}

# The last session ahead releases the lock, and the victim is granted it.
sub takes_over
{
	my ($session, $kind, @paths) = @_;

	$session->query('SELECT zk_lock_release_all()');
	expect('grant', $victim->result, 't');
	holds_and_releases($kind, @paths);
	return;
}

sub handed_over
{
	my ($kind, $path) = @_;

	wait_in_line(take($kind, $path),
		$kind eq 'semaphore' ? are_there(2, $kind, $path) : are_watched(1));
	takes_over($holder, $kind, $path);
	return;
}

# A count lets no holder in until it is raised.
sub let_in_by_count
{
	my ($path) = @_;

	wait_in_line(take('counted', $path), are_there(1, 'counted', $path));
	$holder->query("SELECT zk_shared_count_set('/counts$path', 1)");
	expect('grant', $victim->result, 't');
	holds_and_releases('counted', $path);
	return;
}

sub cancel
{
	my ($session) = @_;

	kill('INT', $session->pid);
	expect('cancelled', substr($session->result, 0, 13), 'ERROR:  57014');
	return;
}

sub downgraded
{
	my ($kind, $path) = @_;

	answers($victim, take($kind, $path), 't');
	answers($victim, "SELECT zk_lock_acquire('$path', mode => 'shared')", 't');
	answers($victim, "SELECT zk_lock_release('$path', '$kind')", 't');
	holds_and_releases('write', $path);
	return;
}

sub transaction
{
	my ($path, $end, $confirm) = @_;

	$victim->query("BEGIN; SET LOCAL zklock.confirm_commit = '$confirm'");
	answers($victim, "SELECT zk_lock_guard('$path') > 0", 't');
	holds('exclusive', $path);
	$victim->query('UPDATE stock SET n = n + 1');
	answers($victim, $end, '');
	$commits++ if $end eq 'COMMIT';
	is_free('exclusive', $path);
	answers($victim, 'SELECT n FROM stock', $commits);
	return;
}

# Changes a setting so that the next lock needs a new session.
sub change_timeout
{
	my ($seconds) = @_;
	my $id = 'SELECT session_id FROM zk_session()';
	my $before = $victim->query($id);
	my $set = "SET zklock.session_timeout = '$seconds s'";

	$victim->query($set) if !server_mode();
	return if !server_mode();
	$victim->query("ALTER SYSTEM $set");
	$victims_node->reload;
	wait_until('the old session is over',
		sub { $victim->query($id) ne $before });
	return;
}

sub is_held
{
	my ($kind) = @_;

	return sub { $holder->query(take($kind, $_[0])) };
}

sub is_queued_for_by_three
{
	my ($path) = @_;
	my @queue;

	for my $session ($holder, $second, $third)
	{
		$session->start(take('exclusive', $path));
		push @queue, $session;
		wait_for_queue($client, $path, @queue);
	}
	return;
}

# The operations on a path, and what other sessions do before. Each operation
# releases its locks, so the frames of the release are lost in turn, too.
my @operations = (
	{
		name => 'a free lock',
		more => 1,
		do => sub { granted('exclusive', @_) }
	},
	{
		name => 'a free lock, not yet connected',
		do => sub {
			change_timeout(31 + $rounds % 2);
			granted('exclusive', @_);
		}
	},
	{
		name => 'a free lock, parents missing',
		do => sub { granted('exclusive', "$_[0]/un/known") }
	},
	{
		name => 'a simple lock',
		more => 1,
		do => sub { granted('simple', @_) }
	},
	{
		name => 'a semaphore',
		do => sub { granted('semaphore', @_) }
	},
	{
		name => 'three locks at once',
		do => sub {
			answers($victim, take('all', @_), 't');
			holds_and_releases('exclusive', map { "$_[0]/$_" } (1 .. 3));
		}
	},
	{
		name => 'three locks, one of which is handed over',
		before => sub { is_held('exclusive')->("$_[0]/2") },
		do => sub {
			wait_in_line(take('all', @_), are_watched(1));
			takes_over($holder, 'exclusive', map { "$_[0]/$_" } (1 .. 3));
		}
	},
	{
		name => 'a lock that is handed over',
		more => 1,
		before => is_held('exclusive'),
		do => sub { handed_over('exclusive', @_) }
	},
	{
		name => 'a simple lock that is handed over',
		before => is_held('simple'),
		do => sub { handed_over('simple', @_) }
	},
	{
		name => 'a semaphore that is handed over',
		before => is_held('semaphore'),
		do => sub { handed_over('semaphore', @_) }
	},
	{
		name => 'a lease after its count is raised',
		before => sub {
			$holder->query("SELECT zk_shared_count_set('/counts$_[0]', 0)");
		},
		do => \&let_in_by_count
	},
	{
		name => 'a lock with three ahead',
		before => \&is_queued_for_by_three,
		do => sub {
			wait_in_line(take('exclusive', @_), are_watched(5));
			for my $session ($holder, $second)
			{
				$session->result;
				$session->query('SELECT zk_lock_release_all()');
				$proxy->wait_answered;
			}
			$third->result;
			takes_over($third, 'exclusive', @_);
		}
	},
	{
		name => 'a lock with three ahead, one of which gives up',
		before => \&is_queued_for_by_three,
		do => sub {
			wait_in_line(take('exclusive', @_), are_watched(5));
			cancel($third);
			$proxy->wait_answered;
			$holder->result;
			$holder->query('SELECT zk_lock_release_all()');
			$second->result;
			takes_over($second, 'exclusive', @_);
		}
	},
	{
		name => 'a lock that is held',
		before => is_held('exclusive'),
		do => sub { not_granted(@_, q('0')) }
	},
	{
		name => 'a lock that is not granted in time',
		before => is_held('exclusive'),
		do => sub { not_granted(@_, q('100 ms')) }
	},
	{
		name => 'a wait that is cancelled',
		before => is_held('exclusive'),
		do => sub {
			wait_in_line(take('exclusive', @_), are_watched(1));
			cancel($victim);
			wait_for_queue($client, @_, $holder);
		}
	},
	{
		name => 'a downgraded write lock',
		do => sub { downgraded('write', @_) }
	},
	{
		name => 'a downgraded exclusive lock',
		do => sub { downgraded('exclusive', @_) }
	},
	{
		name => 'COMMIT within the lease',
		do => sub { transaction(@_, 'COMMIT', 'lease') }
	},
	{
		name => 'COMMIT with confirmation',
		do => sub { transaction(@_, 'COMMIT', 'always') }
	},
	{
		name => 'ROLLBACK',
		do => sub { transaction(@_, 'ROLLBACK', 'lease') }
	});

# Loses these frames, and returns whether the last of them, the one with the
# highest number, was sent.
sub lose
{
	my ($operation, $dir, $action, @numbers) = @_;
	my $path = '/lost/' . ++$rounds;

	$lost = "frame @numbers";
	$client->create($path);
	$operation->{before}->($path) if $operation->{before};

	# The victim's session may have expired without notice if it held no lock.
	wait_until(
		'the victim is connected',
		sub {
			my $now = $victim->query($state);

			$victim->query(
				q(SELECT zk_lock_acquire('/lost/none'), zk_lock_release_all()))
			  if $now eq 'expired';
			return $now eq 'connected';
		});
	$proxy->wait_answered;

	my @rules =
	  map { $proxy->rule(dir => $dir, action => $action, nth => $_) } @numbers;
	eval { $operation->{do}->($path); 1 } or die "$lost: $@";
	$proxy->wait_answered;
	my $was_sent = $proxy->fired($rules[-1]);
	$proxy->reset;

	$holder->query('SELECT zk_lock_release_all()');
	return $was_sent;
}

# Loses each frame in turn. With $more, it also loses each frame after that
# one, and so on.
sub sweep
{
	my ($operation, $dir, $action, $more, @before) = @_;

	my $step = @before ? sample_of(1, STEP) : 1;

	for (my $number = ($before[-1] // 0) + 1 + int(rand($step));
		lose($operation, $dir, $action, @before, $number);
		$number += $step)
	{
		sweep($operation, $dir, $action, $more - 1, @before, $number) if $more;
	}
	return;
}

$victim->query(q(SELECT zk_lock_acquire('/first'), zk_lock_release_all()));
$client->create('/lost');
for my $operation (@operations)
{
	for my $dir (qw(c2s s2c))
	{
		for my $action (qw(drop cut))
		{
			my $what = "$operation->{name}: $action $dir";

			@problems = ();
			eval { sweep($operation, $dir, $action, $operation->{more}); 1 }
			  or die "$what: $@";
			is_deeply(\@problems, [], "$what: results are the same");
		}
	}
}
note("$rounds rounds");

done_testing();
