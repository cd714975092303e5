# Many sessions of two servers take locks in random order. All deadlocks are broken, so
# that all sessions come to an end. The history of all calls shows that each deadlock was
# one: at one moment, each member waited for a lock that the next one had, or waited for,
# too.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: 200 rounds of all sessions together, not 2,000

use strict;
use warnings;

use List::Util qw(all max min);
use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

use constant {
	SESSIONS => 20,
	ROUNDS => sample_of(100, 10)	# of each session
};

$Wait::timeout *= sample_of(10, 1);

my $zk = ZkServer->new->start;
my @nodes = map {
	new_node($_, $zk->hosts, deadlock_timeout => '50ms',
		shared_preload_libraries => 'zklock')
} 'a', 'b';

# A round takes three of six locks. Each call is recorded, with the locks that the session
# had. It had them at least until "ended": the subtransaction of the call does not give
# them back. Both servers have the same clock.
$_->safe_psql('postgres', <<'EOSQL') for @nodes;
CREATE UNLOGGED TABLE calls (pid int, path text, mode text, held text[],
	began timestamptz, ended timestamptz, detail text);

CREATE PROCEDURE play(modes text[]) LANGUAGE plpgsql AS $$
DECLARE
	rounds int := current_setting('storm.rounds');
	history calls[];
	call calls;
	i int;
BEGIN
	FOR round IN 1 .. rounds LOOP
		call := NULL;
		history := '{}';
		FOR i IN SELECT g FROM generate_series(1, 6) AS g ORDER BY random() LIMIT 3 LOOP
			call.held := call.held || format('%s %s', call.mode, call.path);
			call.path := '/storm/' || i;
			call.mode := modes[1 + floor(random() * cardinality(modes))];
			call.began := clock_timestamp();
			BEGIN
				PERFORM zk_lock_acquire(call.path, scope => 'transaction',
					mode => call.mode::zk_lock_mode);
			EXCEPTION WHEN deadlock_detected THEN
				GET STACKED DIAGNOSTICS call.detail = PG_EXCEPTION_DETAIL;
			END;
			call.ended := clock_timestamp();
			history := history || call;
			EXIT WHEN call.detail IS NOT NULL;
		END LOOP;
		INSERT INTO calls
			SELECT pg_backend_pid(), h.path, h.mode, h.held, h.began, h.ended, h.detail
				FROM unnest(history) AS h;
		COMMIT;
	END LOOP;
END $$
EOSQL

# Returns the calls of all sessions, by "pid port", in their order.
sub read_calls
{
	my %calls;

	for my $node (@nodes)
	{
		my $rows = $node->safe_psql('postgres',
			q(SELECT pid, path, mode, array_to_string(held, ','), extract(epoch FROM began),
				extract(epoch FROM ended), replace(detail, E'\n', ';')
			  FROM calls ORDER BY began));

		for (split(/\n/, $rows))
		{
			my %call = (port => $node->port);
			@call{qw(pid path mode held began ended detail)} = split(/\|/, $_, 7);
			$call{held} = { map { reverse split(/ / ) } split(/,/, $call{held}) };
			push(@{ $calls{"$call{pid} $call{port}"} }, \%call);
		}
	}
	return \%calls;
}

# Returns the members of the deadlock of which a call was the victim, each as (process,
# mode, path), or nothing if the detail is no cycle. The process is the key of its calls,
# or empty if it is not known.
sub members
{
	my ($victim) = @_;
	my (@members, @blockers);

	for (split(/;(?=Process|The process)/, $victim->{detail}))
	{
		my ($process, $mode, $path, $blocker) =
		  /^(.*) waits for (\S+) lock on path "(.*)"; blocked by (.*)\.$/ or return;

		push(@members, [ process($process, $victim), $mode, $path ]);
		push(@blockers, process($blocker, $victim));
	}
	return if !all { $blockers[ $_ - 1 ] eq $members[$_][0] } 0 .. $#members;
	return @members;
}

sub process
{
	my ($text, $victim) = @_;

	return '' if $text !~ /^process (\d+)(?: of \S+:(\d+))?$/i;
	return "$1 " . ($2 // $victim->{port});
}

sub conflict
{
	my (@modes) = @_;

	return grep { $_ ne 'shared' } @modes;
}

# Was a call blocked by the process that made another one at the same time?
sub is_blocked
{
	my ($call, $other) = @_;
	my $held = $other->{held}{ $call->{path} };

	return 1 if defined $held && conflict($call->{mode}, $held);
	return $call->{path} eq $other->{path} && conflict($call->{mode}, $other->{mode});
}

# Returns the calls that the members made at this moment if they were a cycle of waits.
sub cycle_at
{
	my ($moment, $candidates) = @_;
	my @cycle;

	for my $calls (@$candidates)
	{
		my ($call) = grep { $_->{began} <= $moment && $moment < $_->{ended} } @$calls;

		push(@cycle, $call // return);
	}
	return if !all { is_blocked($cycle[ $_ - 1 ], $cycle[$_]) } 0 .. $#cycle;
	return @cycle;
}

# Returns the calls of the deadlock of which a call was the victim, or nothing if there was
# none. A process that is not known may be any that made such a call.
sub find_cycle
{
	my ($victim, $calls) = @_;
	my @candidates;

	for my $member (members($victim))
	{
		my ($process, $mode, $path) = @$member;
		my @calls = $process ne '' ? @{ $calls->{$process} // [] } : map { @$_ } values %$calls;

		push(@candidates,
			[ grep { $_->{path} eq $path && $_->{mode} eq $mode
					&& $_->{began} < $victim->{ended} && $_->{ended} > $victim->{began} } @calls ]);
	}
	return if @candidates < 2;
	for my $moment (sort { $b <=> $a } map { $_->{began} } map { @$_ } @candidates)
	{
		my @cycle = cycle_at($moment, \@candidates);

		return @cycle if @cycle;
	}
	return;
}

sub storm
{
	my ($modes) = @_;
	my @sessions = map { ZkTest->new($nodes[ $_ % 2 ], 'storm.rounds' => ROUNDS)->connect } 1 .. SESSIONS;

	$_->safe_psql('postgres', 'TRUNCATE calls') for @nodes;
	$_->start("CALL play('{$modes}')") for @sessions;
	is(join('', map { $_->result } @sessions), '', "$modes: all sessions come to an end");
	$_->close for @sessions;

	my $calls = read_calls();
	my @victims = grep { $_->{detail} ne '' } map { @$_ } values %$calls;
	my (@wrong, @late, %sizes);

	for my $victim (@victims)
	{
		my @cycle = find_cycle($victim, $calls) or push(@wrong, $victim->{detail}), next;

		$sizes{ @cycle }++;
		push(@late, $victim->{ended} - min(map { $_->{ended} } @cycle));
	}
	cmp_ok(scalar(@victims), '>', 0, '... after deadlocks');
	is(join("\n", @wrong), '', '... each of which was one');
	note(scalar(@victims) . ' deadlocks; members: '
		  . join(', ', map { "$_: $sizes{$_}" } sort { $a <=> $b } keys %sizes));
	note(sprintf('%d were reported after another member had ended its wait, at most %.3f s',
		scalar(grep { $_ > 0 } @late), max(0, @late)));
	return;
}

storm('exclusive');
storm('exclusive,write,shared');
wait_until('no lock is left',
	sub { !grep { $_->safe_psql('postgres', 'SELECT count(*) FROM zk_locks') } @nodes });
wait_until('no record is left', sub { !$zk->children('/zklock/waits') });

done_testing();
