# Beats: what the client writes by itself, so that its session stays confirmed. A session
# beats each sixth of its timeout, whether it has a lock or not. If it has none for long, it
# is closed.
#
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);
use ZkProxy;
use ZkServer;
use ZkTest;

use constant {
	TIMEOUT => 2,            # s, of the session
	BEAT => 2 / 6,           # s between beats, as src/protocol/proof.h has it
	REST => 6 * 2,           # s after which an unused session stops
	GAPS => 9,
	EARLY => 0.01,           # s by which the proxy may have got the beat before late
	SLACK => 1.3,            # how much longer a busy machine may take, in most cases
};

my $zk = ZkServer->new(tick_time => 200)->start;
my @modes = qw(backend server);
my (%proxy, %session, %at);

# Waits for some beats from now on, of both modes, and examines the times between them: the
# median, since a busy machine may delay some.
sub gaps_ok
{
	my ($what, $has_locks) = @_;

	for my $mode (@modes)
	{
		$proxy{$mode}->wait_idle;
		$proxy{$mode}->mark;
	}
	for my $mode (@modes)
	{
		my $proxy = $proxy{$mode};

		wait_until("there are beats in mode $mode", sub { $proxy->beats > GAPS });
		my @at = map { $_->{at} } $proxy->beats;
		my @gaps = sort { $a <=> $b } map { $at[ $_ + 1 ] - $at[$_] } 0 .. GAPS - 1;

		note("gaps: @{[ map { sprintf('%.2f', $_) } @gaps ]}");
		cmp_ok($gaps[ GAPS / 2 ], '>=', BEAT - EARLY,
			"mode $mode, $what: there are not too many beats");
		cmp_ok($gaps[ GAPS / 2 ], '<=', BEAT * SLACK, '... nor too few');

		# A worker also looks at the nodes of its locks, one after the other, with a setData.
		my @others = map { $_->{op} } $proxy->trace;
		@others = grep { $_ ne 'setData' } @others if $mode eq 'server' && $has_locks;
		is("@others", '', '... and nothing else is sent');
	}
	return;
}

for my $mode (@modes)
{
	$proxy{$mode} = ZkProxy->new($zk->hosts);
	my $node = new_node(
		$mode, $proxy{$mode}->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_mode' => $mode,
		'zklock.session_timeout' => TIMEOUT . 's');
	$session{$mode} = ZkTest->new($node);
}

$session{$_}->query("SELECT zk_lock_acquire('/held/$_')") for @modes;
gaps_ok('a lock of an idle session', 1);

for my $mode (@modes)
{
	$session{$mode}->query(
		"BEGIN; SELECT zk_lock_guard('/guarded/$mode'); SELECT zk_lock_release('/held/$mode')");
	$session{$mode}->start('SELECT pg_sleep(1000)');
}
gaps_ok('a lock of a busy session', 1);

for my $mode (@modes)
{
	kill('INT', $session{$mode}->pid);
	like($session{$mode}->result, qr/^ERROR:  57014/m, 'the statement is cancelled');
	$session{$mode}->query('ROLLBACK');
	$at{$mode} = time();
}
gaps_ok('nothing held', 0);

for my $mode (@modes)
{
	my $last = wait_until(
		'there are no more beats',
		sub {
			my ($last) = map { $_->{at} } reverse $proxy{$mode}->beats;
			time() - $last > 4 * BEAT ? $last : 0;
		});

	# It has last been used a little before or after that time.
	cmp_ok($last - $at{$mode}, '>=', REST - 2 * BEAT, "mode $mode: beats go on for a while");
	cmp_ok($last - $at{$mode}, '<=', REST * SLACK, '... and stop then');
	my $accepted = $proxy{$mode}->accepted;
	is($session{$mode}->query("SELECT zk_lock_acquire('/again/$mode')"), 't',
		'... a lock can be taken again');
	cmp_ok($proxy{$mode}->accepted, '<=', $accepted + 1, '... with one connection at most');
}
gaps_ok('a lock again', 1);
is($session{$_}->query('SELECT losses FROM zk_lock_stats'), '0', "mode $_: no lock was lost")
  for @modes;

done_testing();
