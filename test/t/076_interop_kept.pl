# Locks that a server keeps (zklock.keep_time), and clients of each kind that want them.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../interop";

use Interop;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkProxy;
use ZkServer;
use ZkTest;

# For flights: after this time without a frame, all clients wait for a reply.
use constant SETTLE => 0.3;

# For news that come late: longer than that, and than what zklock waits for a server
# that keeps a lock
use constant LATE_MS => 3000;

# A turn that does not wait for its server's next list, which is due after 5 s. The
# processor may be busy.
use constant SOON => 2.5;

my $zk = ZkServer->new->start;
my %settings = (
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '60s',
	'zklock.keep_time' => '1min');
my $keeper_proxy = ZkProxy->new($zk->hosts);
my $proxy = ZkProxy->new($zk->hosts);
my $keeper = new_node('keeper', $keeper_proxy->hosts, %settings);
my $other = new_node('other', $proxy->hosts, %settings);
my $session = ZkTest->new($keeper)->connect;

# Clients, and the flights of their locks: of one that nobody has; of one that is given up
# before the client's next flight; and of one that is given up later. The last two do not
# depend on whether a server has kept the lock or a holder has released it.
my @rivals = (
	[ 'zklock with a session of its own', backend($keeper, OWN_SESSION, 'zklock.hosts' => $proxy->hosts), 1, 2, 2 ],
	[ 'zklock on another server', backend($other), 1, 2, 2 ],
	[ 'Curator', peer(Peer->curator($proxy, $keeper), 'mutex'), 2, 2, 4 ],
	[ 'kazoo', peer(Peer->kazoo($proxy, $keeper), 'lock'), 3, 3, 5 ],
	[ 'go-zookeeper', peer(Peer->go($proxy, $keeper), 'lock'), 2, 2, 4 ]);

# These return a function that makes a party at a path.
sub backend
{
	my $session = ZkTest->new(@_);

	return sub { ours($session, 'exclusive', $_[0]) };
}

sub peer
{
	my ($peer, $kind) = @_;
	my $actor = $peer->actor;

	return sub { theirs($actor, $kind, $_[0]) };
}

# Has the server keep a lock. Returns a rival that has a session and knows the path.
sub warm
{
	my ($path, $make) = @_;
	my $rival = $make->($path);

	$rival->acquire;
	$rival->release;
	wait_until_gone($zk, $path);
	$session->query("SELECT zk_lock_acquire('$path'), zk_lock_release('$path')") for 1 .. 4;
	is(scalar $zk->children($path), 1, "$path is kept");
	$proxy->wait_idle;
	return $rival;
}

# The server hears late of other clients.
sub delay_news
{
	my ($path) = @_;

	$keeper_proxy->rule(dir => 's2c', op => 'event', path => "^\Q$path\E\$",
		action => 'delay', ms => LATE_MS);
	return;
}

# Another client holds the lock, and releases it when $when returns true. Returns the
# flights of the rival.
sub flights_behind_holder
{
	my ($path, $rival, $when) = @_;
	my $holder = ZkTest->new($keeper, OWN_SESSION, 'zklock.hosts' => $zk->hosts);
	my $answer;

	is($holder->query("SELECT zk_lock_acquire('$path')"), 't', "another client holds $path");
	my ($node) = $zk->children($path);
	my $flights = $proxy->flights(
		sub {
			$rival->start_acquire;
			wait_until('the holder is to release the lock', sub { $when->("$path/$node") });
			$holder->query('SELECT zk_lock_release_all()');
			$answer = $rival->result;
		},
		SETTLE);
	is($answer, 't', '... until a rival has it');
	$rival->release;
	$holder->close;
	return $flights;
}

for (@rivals)
{
	my ($name, $make, $flights_free, $flights, $flights_late) = @$_;
	my $tries = $name ne 'go-zookeeper';
	my $path = '/kept/' . ($name =~ s/\W+/-/gr);
	my $answer;

	my $rival = $make->("$path/free");
	$rival->acquire;
	$rival->release;
	wait_until_gone($zk, "$path/free");
	$proxy->wait_idle;
	$proxy->mark;
	is($proxy->flights(sub { $answer = $rival->acquire }, SETTLE),
		$flights_free, "$name takes a free lock in $flights_free flights");

	# kazoo looks first for a node that it may have created before.
	is_deeply([ map { $_->{op} } $proxy->requests ], [qw(getChildren create getChildren)],
		'... the first of which comes before its node')
	  if $name eq 'kazoo';
	$rival->release;

	# A lock that is held, and released for the rival
	$rival = $make->("$path/held");
	$rival->acquire;
	$rival->release;
	is( flights_behind_holder("$path/held", $rival, sub { $zk->children("$path/held") == 2 }),
		$flights, "$name takes a lock that is released for it in $flights flights");
	is( flights_behind_holder("$path/held", $rival,
			sub { $zk->four_letter('wchp') =~ /^\Q$_[0]\E$/m }),
		$flights_late, "... and in $flights_late flights if it waits already");

	# A lock that is kept
	$rival = warm("$path/idle", $make);
	is($proxy->flights(sub { $answer = $rival->acquire }, SETTLE),
		$flights, "$name takes a kept lock in $flights flights");
	is($answer, 't', '... and has it');
	$rival->release;

	$rival = warm("$path/late", $make);
	delay_news("$path/late");
	is($proxy->flights(sub { $answer = $rival->acquire }, SETTLE),
		$flights_late, "... and in $flights_late flights if the server hears of it late");
	is($answer, 't', '... and has it');
	$rival->release;
	$keeper_proxy->reset;

	# Clients that do not want to wait, or not for long. The first one, unless it is one of
	# zklock's, is so slow that the server has given the lock up before its second flight.
	if ($tries)
	{
		my $try = sub { $answer = $rival->acquire(0) };
		my $tries_left = 10;

		# zklock waits for the server only for a moment, which may be too short on a busy
		# machine: each try is for a lock that has just been kept.
		do
		{
			$rival = warm("$path/try$tries_left", $make);
			if ($name =~ /zklock/)
			{
				$try->();
			}
			else
			{
				$proxy->flights($try, SETTLE);
			}
		} until ($answer eq 't' || --$tries_left == 0);
		is($answer, 't', "$name gets an idle kept lock if it does not want to wait");
		$rival->release;

		$rival = warm("$path/far", $make);
		delay_news("$path/far");
		is($rival->acquire(0), 'f', '... but not if the server hears of it late');
		$keeper_proxy->reset;
		wait_until_gone($zk, "$path/far");
		is($rival->acquire(0), 't', '... except the next time');
		$rival->release;

		$rival = warm("$path/short", $make);
		delay_news("$path/short");
		is($rival->acquire(10 * LATE_MS), 't', '... or if it waits long enough');
		$rival->release;
		$keeper_proxy->reset;
	}

	# A lock that its server never stops using
	my @users = map { ZkTest->new($keeper) } 1 .. 3;

	$rival = warm("$path/busy", $make);
	$_->start(
		qq(DO \$\$ BEGIN
			LOOP
				PERFORM zk_lock_acquire('$path/busy');
				PERFORM zk_lock_release('$path/busy');
			END LOOP;
		END \$\$)) for @users;
	for my $round (1 .. 3)
	{
		my $until = time() + 0.3;

		wait_until('the server uses the lock for a while', sub { time() > $until });
		my $began = time();
		is($rival->acquire, 't', "$name gets a lock that a server never stops using");
		my $waited = time() - $began;
		cmp_ok($waited, '<', SOON, '... soon');
		note(sprintf('waited %.0f ms', 1000 * $waited));
		$rival->release;
	}
	if ($tries)
	{
		is($rival->acquire(30_000), 't', '... in limited time, too');
		$rival->release;
	}
	ok(!(grep { $_->is_done } @users), '... while the server still uses it');
	$keeper->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $_->pid})") for @users;
	like($_->result, qr/^ERROR:  57014: /, '... until it is cancelled') for @users;
	$_->close for @users;
}

done_testing();
