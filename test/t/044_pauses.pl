# A backend, or a server's worker with its backends, is suspended or killed at
# each step on the way to a lock and back, until its session has expired and
# another one has the lock.
#
# Shortened unless ZKLOCK_LONG is set: six steps, not eleven.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

# Timeout of sessions that have to expire, but not before each victim has
# reached its step
use constant TIMEOUT => '4s';

# Limit for operations that wait until such a session expires: generous,
# because the machine may be busy.
use constant SOON => 25;

my $zk = ZkServer->new(tick_time => 200)->start;
my $main = new_node('main', $zk->hosts);

# A transaction that counts the entries of a path in the ledger, and writes the
# next one under a lock. Two concurrent transactions would write the same
# entry.
sub statements
{
	my ($path, $mode) = @_;

	return (
		'BEGIN',
		"SELECT zk_lock_guard('$path', mode => '$mode') > 0",
		"SELECT count(*) + 1 AS next FROM ledger WHERE path = '$path' \\gset\n",
		"INSERT INTO ledger VALUES ('$path', :next)",
		'COMMIT');
}

# A victim is a backend that connects to ZooKeeper through its own proxy, with
# the statements that it has still to run. Two more sessions on its node are
# never cut off: $first holds the lock if the victim has to wait for it, and
# $rival competes for it.

sub new_place
{
	my $proxy = ZkProxy->new($zk->hosts);
	my ($node, %settings) = with_settings(
		$main,
		'zklock.hosts' => $proxy->hosts,
		'zklock.connect_timeout' => '5min',    # no session gives up meanwhile
		'zklock.session_timeout' => TIMEOUT);

	$node->safe_psql('postgres',
		'CREATE TABLE IF NOT EXISTS ledger (path text, entry int)');
	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	$node->reload;
	return [ $proxy, $node, %settings ];
}

my %place;    # for each step

sub new_victim
{
	my ($step, $path, $timeout) = @_;
	my $name = $step->{name};
	my $mode = $step->{mode} // 'exclusive';

	my ($proxy, $node, %settings) = @{ $place{$name} //= new_place() };
	my ($first, $rival) = map {
		ZkTest->new(
			$node,
			'zklock.session_mode' => 'backend',
			'zklock.hosts' => $zk->hosts,
			'zklock.session_timeout' => $timeout)
	} (1, 2);

	return {
		ends => 'committed',
		entries => 0,    # number of committed entries
		%$step,
		path => $path,
		mode => $mode,
		proxy => $proxy,
		node => $node,
		session => ZkTest->new($node, %settings),
		first => $first,
		rival => $rival,
		todo => [ statements($path, $mode) ]
	};
}

# Runs the next $n statements of the victim.
sub advance
{
	my ($victim, $n) = @_;

	$victim->{session}->query(join(";\n", splice(@{ $victim->{todo} }, 0, $n)));
	return;
}

# Starts the remaining statements of the victim.
sub go
{
	my ($victim) = @_;

	$victim->{session}->start(join(";\n", splice(@{ $victim->{todo} })))
	  if @{ $victim->{todo} };
	return;
}

# Runs $code, and holds the first frame that matches and all later ones. The
# proxy keeps the session, if there is one, alive.
sub hold_at
{
	my ($victim, $code, %frame) = @_;
	my @alive = ($frame{op} // '') eq 'connect' ? () : (pings => 1);
	my $proxy = $victim->{proxy};
	my $rule = $proxy->rule(%frame, action => 'hold', @alive);

	$code->($victim);
	wait_until("$victim->{name}: the frame is held",
		sub { $proxy->fired($rule) });
	$victim->{held} = $frame{dir};
	return;
}

# Does the victim wait for the holder's node?
sub waits
{
	my ($victim) = @_;

	return $zk->four_letter('wchp') =~ m{^\Q$victim->{path}\E(/|$)}m;
}

sub queue_behind_first
{
	my ($victim) = @_;

	$victim->{first}->query("SELECT zk_lock_acquire('$victim->{path}')");
	go($victim);
	wait_until("$victim->{name}: the victim waits", sub { waits($victim) });
	return;
}

sub first_releases
{
	my ($victim) = @_;

	$victim->{first}->query("SELECT zk_lock_release('$victim->{path}')");
	return;
}

# The steps: how to bring a victim there, and how its transaction ends if its
# session has expired when it continues. A held frame is delivered while the
# victim is suspended or, if "late", after its session has expired. A backend
# that reads a grant only long after it was sent does not trust it, and waits
# again.
my @steps = (
	{
		name => 'connecting',
		to => sub { hold_at($_[0], \&go, dir => 's2c', op => 'connect') }
	},
	{
		name => 'creating a node',
		late => 1,
		to => sub { hold_at($_[0], \&go, dir => 'c2s', op => 'create2') }
	},
	{
		name => 'with the granting reply on its way',
		to => sub { hold_at($_[0], \&go, dir => 's2c', op => 'create2') }
	},
	{
		name => 'in the queue',
		to => \&queue_behind_first,
		later => \&first_releases
	},
	{
		name => 'in the queue, and cancelled',
		ends => 'cancelled',
		to => \&queue_behind_first,
		later => sub {
			first_releases(@_);
			$_[0]->{first}->query(
				"SELECT pg_cancel_backend(${\ $_[0]->{session}->pid})");
		}
	},
	{
		name => 'with the granting event on its way',
		to => sub {
			queue_behind_first(@_);
			hold_at($_[0], \&first_releases, dir => 's2c', op => 'event');
		}
	},
	{
		name => 'idle in transaction',
		ends => 'lost',
		to => sub { advance($_[0], 3) }
	},
	{
		name => 'in a statement',
		ends => 'lost',
		to => sub {
			advance($_[0], 3);
			unshift(@{ $_[0]->{todo} }, 'SELECT pg_sleep(1000)');
			go($_[0]);
		}
	},
	{
		name => 'at COMMIT, with the request for confirmation on its way',
		late => 1,
		ends => 'lost',
		to => sub {
			$_[0]->{session}->query(q(SET zklock.confirm_commit = 'always'));
			advance($_[0], 4);
			hold_at($_[0], \&go, dir => 'c2s');
		}
	},
	{
		name => 'at COMMIT, with the confirmation on its way',
		ends => 'lost',
		to => sub {
			$_[0]->{session}->query(q(SET zklock.confirm_commit = 'always'));
			advance($_[0], 4);
			hold_at($_[0], \&go, dir => 's2c');
		}
	},
	{
		name => 'releasing',
		late => 1,
		mode => 'simple',
		entries => 1,
		to => sub {
			hold_at(
				$_[0],
				sub { advance($_[0], 5) },
				dir => 'c2s',
				op => 'delete');
			push(@{ $_[0]->{todo} }, statements($_[0]->{path}, 'simple'));
		}
	});

# Creates a victim for each step. The other sessions have the given timeout.
sub bring_to_steps
{
	my ($dir, $others_timeout) = @_;
	my $n = 0;
	my @victims =
	  map { new_victim($_, "$dir/" . ++$n, $others_timeout) } every(2, @steps);

	$_->{to}->($_) for @victims;
	return @victims;
}

sub signal
{
	my ($signal, @victims) = @_;

	kill($signal, map { @{ $_->{pids} } } @victims);
	return;
}

# The proxies stop keeping the sessions of the suspended processes alive.
sub let_go
{
	my ($late, @victims) = @_;

	for my $victim (grep { $_->{held} } @victims)
	{
		if ($victim->{late} && !$late)
		{
			$victim->{proxy}->hold($victim->{held});
		}
		else
		{
			$victim->{proxy}->release;
		}
	}
	return;
}

sub outcome
{
	my ($victim) = @_;

	for ($victim->{session}->result)
	{
		return 'lost'
		  if /^ERROR:  40001: lock on "\Q$victim->{path}\E" was lost/m;
		return 'cancelled' if /^ERROR:  57014:/m;
		return /ERROR/ ? $_ : 'committed';
	}
}

# Checks that the ledger of a victim's path has each committed entry once, and
# that the session can write the next one.
sub ledger_ok
{
	my ($victim, $session) = @_;
	my $entries = "SELECT string_agg(entry::text, ' ' ORDER BY entry)
	  FROM ledger WHERE path = '$victim->{path}'";
	my $expected = join(' ', 1 .. $victim->{entries});

	is($session->query($entries), $expected, '... ledger has each committed entry once');
	is( $session->query(
			join(";\n", statements($victim->{path}, $victim->{mode}))),
		't',
		'... lock can be acquired again');
	wait_until("$victim->{path} is empty", sub { is_empty($victim) });
	return;
}

sub is_empty
{
	my ($victim) = @_;
	my @names = $zk->children($victim->{path});

	return !@names
	  && ($victim->{mode} ne 'simple' || !$zk->exists($victim->{path}));
}

# The victims are suspended until other sessions have the locks.

my @victims = bring_to_steps('/paused', '30s');
my %others;
for my $session (map { ($_->{first}, $_->{rival}) } @victims)
{
	$session->query(q(
		SELECT zk_lock_acquire('/first', mode => 'shared');
		SELECT zk_lock_release('/first', 'shared')));
	$others{ $session->query('SELECT session_id FROM zk_session()') } = 1;
}
$_->{pids} = [ $_->{session}->pid, keeper_of($_->{session}, $_->{node}) ]
  for @victims;
signal('STOP', @victims);
let_go(0, @victims);
wait_until('the sessions are over',
	sub { !grep { !$others{$_} } $zk->sessions });
$_->{later}->($_) for grep { $_->{later} } @victims;

# When the victims are resumed, one transaction of the rival has committed, and
# the next one is still open.
for my $victim (@victims)
{
	$victim->{entries} += 2;
	$victim->{rival}->query(
		join(";\n", statements($victim->{path}, $victim->{mode})));
}
my $seconds = seconds_of(
	sub {
		for my $victim (@victims)
		{
			my @open = statements($victim->{path}, $victim->{mode});
			$victim->{rival}->query(join(";\n", @open[ 0 .. 3 ]));
		}
		let_go(1, @victims);
		signal('CONT', @victims);
		go($_) for @victims;
		for my $victim (@victims)
		{
			wait_until("$victim->{name}: the victim is done or waits",
				sub { $victim->{session}->is_done || waits($victim) });
		}
		is(join('', map { $_->{rival}->query('COMMIT') } @victims),
			'', 'resumed victims do not disturb the holders');
		$_->{outcome} = outcome($_) for @victims;
	});
cmp_ok($seconds, '<', SOON, '... and all continue in time');

for my $victim (@victims)
{
	like($victim->{outcome}, qr/^($victim->{ends})$/,
		"suspended $victim->{name}: ends as expected");
	$victim->{entries}++ if $victim->{outcome} eq 'committed';
	ledger_ok($victim, $victim->{session});
	$victim->{$_}->close for qw(session first rival);
}

# The first step needs a worker without a session.
if (server_mode())
{
	$_->[1]->restart for values %place;
}

# The victims are killed, and with them all other processes of their servers.
# Frames on their way to ZooKeeper still arrive.

@victims = bring_to_steps('/killed', TIMEOUT);
$_->{pids} = [ keeper_of($_->{session}, $_->{node}) ] for @victims;
signal('KILL', @victims);
$_->{session}->result for @victims;
$_->{proxy}->release for @victims;
$seconds = seconds_of(
	sub {
		for my $victim (@victims)
		{
			wait_until("killed $victim->{name}: no node is left",
				sub { is_empty($victim) });
		}
	});
cmp_ok($seconds, '<', SOON, 'nodes of killed backends disappear in time');
for my $victim (@victims)
{
	wait_for_server($victim->{node});
	note("killed $victim->{name}");
	ledger_ok($victim, ZkTest->new($victim->{node}));
}

done_testing();
