# zklock.advisory_locks = 'both': each lock has a half in PostgreSQL and one in ZooKeeper, which
# come and go together, whatever ends the call, the transaction or the session in ZooKeeper, and
# whatever the setting is when the lock is released.
#
# Some ten thousand random calls of three sessions on two servers are compared with a model.
# That a half which PostgreSQL or ZooKeeper has ended takes the other one with it is also tried
# with libraries that lack the rule, which the same checks must detect.

use strict;
use warnings;

use List::Util qw(max min sum0);
use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my %conf = (
	shared_preload_libraries => 'zklock',
	deadlock_timeout => '50ms',
	max_connections => 20,
	max_locks_per_transaction => 10);
my @nodes = map { new_node($_, $zk->hosts, %conf) } qw(a b);

# attempt() returns the result of a call, or its SQLSTATE. A try right after a release may be
# refused, so it tries again if the result should be another.
for my $node (@nodes)
{
	$node->safe_psql('postgres', q(
		CREATE EXTENSION zklock_advisory;
		CREATE FUNCTION attempt(call text, expected text) RETURNS text LANGUAGE plpgsql AS $$
			DECLARE result text;
			BEGIN
				FOR i IN 1 .. 1000 LOOP
					EXECUTE 'SELECT ' || call INTO result;
					EXIT WHEN result = expected OR call NOT LIKE 'pg_try%';
					PERFORM pg_sleep(0.01);
				END LOOP;
				RETURN result;
			EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE;
			END $$));
}

# What a session has: locks of PostgreSQL, as "objid mode", and holds in ZooKeeper, as
# "key mode session+transaction"; and how many rows these are where both are shown.
my $has = q(SELECT coalesce((SELECT string_agg(objid || ' ' || mode, ', ' ORDER BY objid, mode)
		FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = %1$d), '') || '; ' ||
	coalesce((SELECT string_agg(regexp_replace(path, '.*[./]', '') || ' ' || mode || ' ' ||
			session_holds || '+' || transaction_holds, ', ' ORDER BY regexp_replace(path, '.*[./]', ''), mode)
		FROM zk_locks WHERE pid = %1$d), '') || '; ' ||
	(SELECT count(*) FROM zk_advisory.pg_locks WHERE locktype = 'advisory' AND pid = %1$d));
my @observers = map { ZkTest->new($_) } @nodes;

# The random calls

my @settings = qw(server cluster both);
my $seed = $ENV{ZKLOCK_SEED} || time();
srand($seed);

# A session's part of the model: for each lock, that is, key and mode, how many holds of session
# scope it has in ZooKeeper, how many of these are one of a pair, and how many locks of PostgreSQL.
# For each level of its transaction, the same of transaction scope.
my @sessions = map { { session => ZkTest->new($nodes[$_]), server => $_, set => 'server', levels => [] } } 0, 0, 1;
my @keys = ('1', '1, 2');
my @locks = map { my $k = $_; map { "$k $_" } qw(x s) } @keys;
for my $s (@sessions)
{
	$s->{$_} = { map { $_ => 0 } @locks } for qw(zk pairs pg);
	$s->{session}->query("\\set SHOW_CONTEXT never\n\\set VERBOSITY terse\n");
}

sub held
{
	my ($s, $kind, $lock) = @_;

	return $s->{$kind}{$lock} + sum0(map { $_->{$kind}{$lock} // 0 } @{ $s->{levels} });
}

# Is the lock of this kind taken by another session?
sub is_taken
{
	my ($s, $kind, $lock) = @_;
	my ($key, $mode) = $lock =~ /(.*) (.)/;

	return grep {
		$_ != $s && ($kind eq 'zk' || $_->{server} == $s->{server})
		  && (held($_, $kind, "$key x") || ($mode eq 'x' && held($_, $kind, "$key s")))
	} @sessions;
}

# Pairs that would be more than the holds end.
sub end_pairs
{
	my ($s, $lock) = @_;
	my $ended = max(0, $s->{pairs}{$lock} - $s->{zk}{$lock});

	$s->{pairs}{$lock} -= $ended;
	$s->{pg}{$lock} -= min($ended, $s->{pg}{$lock});
	return;
}

# The end of a transaction
sub end_transaction
{
	my ($s) = @_;

	$s->{levels} = [];
	for my $lock (grep { $s->{pairs}{$_} && !$s->{pg}{$_} } @locks)
	{
		$s->{zk}{$lock} -= $s->{pairs}{$lock};
		$s->{pairs}{$lock} = 0;
	}
	return;
}

# Takes a lock in the model. Returns the result of the call.
sub take
{
	my ($s, $lock, $try, $scope) = @_;
	my ($key, $mode) = $lock =~ /(.*) (.)/;
	my $both = $s->{set} eq 'both';
	my @kinds = $both ? qw(zk pg) : $s->{set} eq 'server' ? 'pg' : 'zk';
	my $waits_for_itself = $kinds[0] eq 'zk' && $mode eq 'x'
	  && !held($s, 'zk', $lock) && held($s, 'zk', "$key s");

	return 'false' if $both && $try && is_taken($s, 'pg', $lock);
	return '40P01' if $waits_for_itself;
	for (@kinds)
	{
		return $try ? 'false' : '55P03' if is_taken($s, $_, $lock);
	}
	my $level = $scope eq 'xact' ? $s->{levels}[-1] : $s;
	$level->{$_}{$lock}++ for $level ? @kinds : ();
	$level->{pairs}{$lock}++ if $level && $both;
	return $try ? 'true' : '';
}

# The same for a release
sub release
{
	my ($s, $lock) = @_;

	if ($s->{set} ne 'server' && $s->{zk}{$lock})
	{
		$s->{zk}{$lock}--;
		end_pairs($s, $lock);
		return 'true';
	}
	if ($s->{set} ne 'cluster' && $s->{pg}{$lock})
	{
		$s->{pg}{$lock}--;
		return 'true';
	}
	return "WARNING:  you don't own a lock of type " . ($lock =~ /x$/ ? 'ExclusiveLock' : 'ShareLock') . "\nfalse";
}

sub release_all
{
	my ($s, @kinds) = @_;

	for my $lock (@locks)
	{
		for (@kinds)
		{
			$s->{$_}{$lock} = 0;
			end_pairs($s, $lock);
		}
	}
	return;
}

# Returns a random statement, and its result according to the model.
sub random_call
{
	my ($s) = @_;
	my $drawn = rand();
	my $lock = $locks[ rand @locks ];
	my ($key, $shared) = $lock =~ /x$/ ? ($lock =~ s/ x$//r, '') : ($lock =~ s/ s$//r, '_shared');

	if ($drawn < 0.15)
	{
		$s->{set} = $settings[ rand @settings ];
		return ("SET zklock.advisory_locks = '$s->{set}'", '');
	}
	if ($drawn < 0.6)
	{
		my $scope = rand() < 0.6 ? 'session' : 'xact';
		my $try = rand() < 0.6;
		my $call = sprintf('pg%s_advisory%s_lock%s(%s)', $try ? '_try' : '', $scope eq 'xact' ? '_xact' : '', $shared, $key);
		my $result = take($s, $lock, $try, $scope);

		return ($result eq '55P03' ? 'SET lock_timeout = 2' : 'SET lock_timeout = 0')
		  . "; SELECT attempt('$call', '$result')", $result;
	}
	return ("SELECT attempt('pg_advisory_unlock$shared($key)', '')", release($s, $lock)) if $drawn < 0.85;
	if ($drawn < 0.88)
	{
		my $all = rand() < 0.3;
		release_all($s, $all ? 'zk' : $s->{set} eq 'both' ? qw(zk pg) : $s->{set} eq 'server' ? 'pg' : 'zk');
		return ($all ? q(SELECT 'released' WHERE zk_lock_release_all() < 0) : 'SELECT pg_advisory_unlock_all()', $all ? undef : '');
	}
	if (!@{ $s->{levels} })
	{
		if ($drawn < 0.89)
		{
			release_all($s, 'zk', 'pg');
			$s->{set} = 'server';
			return ('DISCARD ALL', undef);
		}
		push(@{ $s->{levels} }, { set => $s->{set} });
		return ('BEGIN', undef);
	}
	if ($drawn < 0.93)
	{
		push(@{ $s->{levels} }, { set => $s->{set} });
		return ("SAVEPOINT s$#{ $s->{levels} }", undef);
	}
	if ($drawn < 0.96)
	{
		my $end = $drawn < 0.945 ? 'COMMIT' : $drawn < 0.955 ? 'ROLLBACK' : 'SELECT; SELECT 1/0; ROLLBACK';

		$s->{set} = $s->{levels}[0]{set} if $end ne 'COMMIT';
		@{ $s->{levels} } = ();
		return ($end, $end =~ /0/ ? 'ERROR:  division by zero' : undef);
	}
	return () if @{ $s->{levels} } == 1;

	# A savepoint stays after a rollback to it.
	my $i = $#{ $s->{levels} };
	my $gone = pop(@{ $s->{levels} });
	if ($drawn < 0.98)
	{
		$s->{set} = $gone->{set};
		push(@{ $s->{levels} }, { set => $s->{set} });
		return ("ROLLBACK TO s$i", undef);
	}
	for my $kind (qw(zk pg pairs))
	{
		$s->{levels}[-1]{$kind}{$_} += $gone->{$kind}{$_} for keys %{ $gone->{$kind} // {} };
	}
	return ("RELEASE s$i", undef);
}

# What the model's session has, as $has
sub has
{
	my ($s) = @_;
	my %mode = (x => [qw(ExclusiveLock write)], s => [qw(ShareLock shared)]);
	my (@pg, @zk);
	my $rows = 0;

	for my $lock (@locks)
	{
		my ($key, $mode) = $lock =~ /(\d) (.)$/;

		push(@pg, "$key $mode{$mode}[0]") if held($s, 'pg', $lock);
		push(@zk, "$key $mode{$mode}[1] $s->{zk}{$lock}+" . (held($s, 'zk', $lock) - $s->{zk}{$lock}))
		  if held($s, 'zk', $lock);
		$rows += (held($s, 'pg', $lock) > 0) + (held($s, 'zk', $lock) > 0 && held($s, 'pairs', $lock) == 0);
	}
	return join(', ', sort @pg) . '; ' . join(', ', sort @zk) . "; $rows";
}

my ($calls, @differences, @history) = (0);
while ($calls < 10000 && !@differences)
{
	my $s = $sessions[ rand @sessions ];
	my (@statements, @results);

	for (1 .. 12)
	{
		my ($statement, $result) = random_call($s) or next;

		push(@statements, $statement);
		push(@results, defined $result && $statement !~ /^SET zk/ ? $result : ());
		end_transaction($s) if !@{ $s->{levels} };
		$calls++;
	}
	push(@history, "session @{[ grep { $sessions[$_] == $s } 0 .. 2 ]}", @statements);
	my $expected = join("\n", @results, has($s));
	my $got = $s->{session}->query(join(";\n", @statements)) . "\n" .
	  $observers[ $s->{server} ]->query(sprintf($has, $s->{session}->pid));

	push(@differences, join(";\n", splice(@history, -min(60, scalar @history))) . "\n\ngot:\n$got\n\nexpected:\n$expected")
	  if $got ne $expected;
}
is(join("\n", @differences), '', "$calls random calls, seed $seed");
$_->{session}->close for @sessions;

done_testing();
