# Those who keep a session, backends or a server's worker and its backends, stand
# still, or are killed, at each step on the way to a lock and back, until their
# sessions are over and others have the lock.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

# Sessions that are to end, but not before the victims are where they should be
use constant TIMEOUT => '4s';

# In time for what waits for such a session to end, with all the patience that a
# busy machine asks for.
use constant SOON => 25;

my $zk = ZkServer->new(tick_time => 200)->start;
my $main = new_node('main', $zk->hosts);

# A transaction that reads the ledger of a path and writes the next entry, under
# a lock. Two at once write the same one.
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

# A victim is a session with a session in ZooKeeper through a proxy of its own, and
# what is left to do for it. On its node are also others, who are never cut off: the
# holder of the lock, if it has to wait for that, and a rival.

sub new_place
{
	my $proxy = ZkProxy->new($zk->hosts);
	my ($node, %settings) = with_settings(
		$main,
		'zklock.hosts' => $proxy->hosts,
		'zklock.connect_timeout' => '5min',    # nobody gives up meanwhile
		'zklock.session_timeout' => TIMEOUT);

	$node->safe_psql('postgres',
		'CREATE TABLE IF NOT EXISTS ledger (path text, entry int)');
	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	$node->reload;
	return [ $proxy, $node, %settings ];
}

my %place;    # of each step

sub new_victim
{
	my ($step, $path, $timeout) = @_;
	my $name = $step->{name};
	my $mode = $step->{mode} // 'exclusive';

	my ($proxy, $node, %settings) = @{ $place{$name} //= new_place() };
	my ($first, $rival) = map {
		ZkTest->new(
			$node,
			'zklock.session' => 'backend',
			'zklock.hosts' => $zk->hosts,
			'zklock.session_timeout' => $timeout)
	} (1, 2);

	return {
		ends => 'committed',
		entries => 0,    # committed so far
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

# Does its next statements.
sub advance
{
	my ($victim, $n) = @_;

	$victim->{session}->query(join(";\n", splice(@{ $victim->{todo} }, 0, $n)));
	return;
}

# Starts with all that is left to do.
sub go
{
	my ($victim) = @_;

	$victim->{session}->start(join(";\n", splice(@{ $victim->{todo} })))
	  if @{ $victim->{todo} };
	return;
}

# Holds one of the frames that $code makes pass, and all that come after it. The
# session, once there is one, stays alive.
sub hold_at
{
	my ($victim, $code, %frame) = @_;
	my @alive = ($frame{op} // '') eq 'connect' ? () : (pings => 1);
	my $proxy = $victim->{proxy};
	my $rule = $proxy->rule(%frame, action => 'hold', @alive);

	$code->($victim);
	wait_until("$victim->{name}: the frame is there",
		sub { $proxy->fired($rule) });
	$victim->{held} = $frame{dir};
	return;
}

# Does it wait for whoever has the lock?
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
	wait_until("$victim->{name}: it waits", sub { waits($victim) });
	return;
}

sub first_releases
{
	my ($victim) = @_;

	$victim->{first}->query("SELECT zk_lock_release('$victim->{path}')");
	return;
}

# How to bring a victim to each step, and how what it does ends if its session
# is over when it goes on. A frame that is held reaches its end while the victim
# stands still, or (late) not before its session is over. Who reads only now that
# a lock was granted, long ago, does not take it for good, and waits again.
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
		name => 'with the reply that grants the lock under way',
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
		name => 'with the event that grants the lock under way',
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
		name => 'at COMMIT, asking whether the lock is held',
		late => 1,
		ends => 'lost',
		to => sub {
			$_[0]->{session}->query(q(SET zklock.confirm_commit = 'always'));
			advance($_[0], 4);
			hold_at($_[0], \&go, dir => 'c2s');
		}
	},
	{
		name => 'at COMMIT, with the answer under way',
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

# New victims, one at each step. The others' sessions have the given timeout.
sub bring_to_steps
{
	my ($dir, $others_timeout) = @_;
	my $n = 0;
	my @victims =
	  map { new_victim($_, "$dir/" . ++$n, $others_timeout) } @steps;

	$_->{to}->($_) for @victims;
	return @victims;
}

sub signal
{
	my ($signal, @victims) = @_;

	kill($signal, map { @{ $_->{pids} } } @victims);
	return;
}

# Nobody pretends any longer that those who stand still are alive.
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

# The ledger of a victim's path has as many entries as were committed, and each
# of them once; and the session can write the next one.
sub ledger_ok
{
	my ($victim, $session) = @_;
	my $entries = "SELECT string_agg(entry::text, ' ' ORDER BY entry)
	  FROM ledger WHERE path = '$victim->{path}'";
	my $expected = join(' ', 1 .. $victim->{entries});

	is($session->query($entries), $expected, '... the ledger is right');
	is( $session->query(
			join(";\n", statements($victim->{path}, $victim->{mode}))),
		't',
		'... the lock can be had again');
	wait_until("$victim->{path} is left", sub { is_empty($victim) });
	return;
}

sub is_empty
{
	my ($victim) = @_;
	my @names = $zk->children($victim->{path});

	return !@names
	  && ($victim->{mode} ne 'simple' || !$zk->exists($victim->{path}));
}

# They stand still until others have the lock.

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

# When they go on, one transaction has been here, and another one still is.
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
			wait_until("$victim->{name}: it is done or waits",
				sub { $victim->{session}->is_done || waits($victim) });
		}
		is(join('', map { $_->{rival}->query('COMMIT') } @victims),
			'', 'nobody disturbs who has the lock');
		$_->{outcome} = outcome($_) for @victims;
	});
cmp_ok($seconds, '<', SOON, '... and all go on in time');

for my $victim (@victims)
{
	like($victim->{outcome}, qr/^($victim->{ends})$/, "paused $victim->{name}");
	$victim->{entries}++ if $victim->{outcome} eq 'committed';
	ledger_ok($victim, $victim->{session});
	$victim->{$_}->close for qw(session first rival);
}

# Who connects does that without a session.
if (server_mode())
{
	$_->[1]->restart for values %place;
}

# They are killed, and with them all others of their server. What was on its way
# to ZooKeeper arrives all the same.

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
cmp_ok($seconds, '<', SOON, 'killed: no node stays for long');
for my $victim (@victims)
{
	wait_for_server($victim->{node});
	note("killed $victim->{name}");
	ledger_ok($victim, ZkTest->new($victim->{node}));
}

done_testing();
