# zklock.advisory_locks = 'both': each lock has a half in PostgreSQL and one in ZooKeeper, which
# come and go together, whatever ends the call, the transaction or the session in ZooKeeper, and
# whatever the setting is when the lock is released.
#
# Some ten thousand random calls of three sessions on two servers are compared with a model.
# That a half which PostgreSQL or ZooKeeper has ended takes the other one with it is also tried
# with libraries that lack the rule, which the same checks must detect.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use List::Util qw(max min sum0);
use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant CALLS => $ENV{ZKLOCK_CALLS} || 10000;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my %conf = (
	shared_preload_libraries => 'zklock',
	deadlock_timeout => '50ms',
	max_connections => 20,
	max_locks_per_transaction => 10,
	'zklock.on_loss' => 'cancel',
	'zklock.session_timeout' => '2s');
my @nodes = (new_node('a', $proxy->hosts, %conf), new_node('b', $zk->hosts, %conf));

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
		FROM zk_locks WHERE pid = %1$d AND path <> '/other'), '') || '; ' ||
	(SELECT count(*) FROM zk_advisory.pg_locks WHERE locktype = 'advisory' AND pid = %1$d));
my @observers = map { ZkTest->new($_) } @nodes;

# The random calls. ZKLOCK_SEED repeats those of a run.

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
		my $call = sprintf('pg%s_advisory%s_lock%s(%s)',
			$try ? '_try' : '', $scope eq 'xact' ? '_xact' : '', $shared, $key);
		my $result = take($s, $lock, $try, $scope);

		return ($result eq '55P03' ? 'SET lock_timeout = 2' : 'SET lock_timeout = 0')
		  . "; SELECT attempt('$call', '$result')", $result;
	}
	return ("SELECT attempt('pg_advisory_unlock$shared($key)', '')", release($s, $lock)) if $drawn < 0.85;
	if ($drawn < 0.88)
	{
		my $all = rand() < 0.3;
		release_all($s, $all ? 'zk' : $s->{set} eq 'both' ? qw(zk pg) : $s->{set} eq 'server' ? 'pg' : 'zk');
		return $all ? (q(SELECT 'released' WHERE zk_lock_release_all() < 0), undef) :
		  ('SELECT pg_advisory_unlock_all()', '');
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
while ($calls < CALLS && !@differences)
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

	push(@differences, join(";\n", splice(@history, -min(60, scalar @history))) .
		"\n\ngot:\n$got\n\nexpected:\n$expected")
	  if $got ne $expected;
}
is(join("\n", @differences), '', "$calls random calls, seed $seed");
$_->{session}->close for @sessions;

# Each point at which a call can end between the halves. The victim's key is 1.

my ($victim, $other) = map { ZkTest->new($nodes[0], 'zklock.advisory_locks' => $_) } qw(both server);
my $far = ZkTest->new($nodes[1], 'zklock.advisory_locks' => 'cluster');
my $pid = $victim->pid;

sub found
{
	my ($session) = @_;

	return $observers[0]->query(sprintf($has, $session->pid));
}

# Calls the victim's function in both scopes, while $holder has the key, and does something
# meanwhile, with $silent while ZooKeeper does not answer. Neither half must be left of a call
# that fails or is refused.
sub fails
{
	my ($what, $call, $holder, $result, $meanwhile, $silent) = @_;

	for my $scope ('', '_xact')
	{
		my $take = $call =~ s/advisory/advisory$scope/r;

		is($holder->query(q(SELECT attempt('pg_try_advisory_lock(1)', 'true'))), 'true', "$what: a holder")
		  if $holder;
		$victim->query('BEGIN; SAVEPOINT s') if $scope;
		$proxy->hold(undef, pings => 1) if $silent;
		$victim->start("SELECT $take");
		$meanwhile->() if $meanwhile;
		like($victim->result, $result, "$what: $take");
		$proxy->release if $silent;
		$victim->query('ROLLBACK TO s') if $scope && $victim->result =~ /ERROR/;
		is(found($victim), '; ; 0', '... leaves nothing');
		$victim->query('ROLLBACK') if $scope;
		$holder->query('SELECT pg_advisory_unlock_all()') if $holder;
		is($_->query(q(SELECT attempt('pg_try_advisory_xact_lock(1)', 'true'))), 'true',
			'... and others get the lock')
		  for $other, $far;
	}
	return;
}

# While PostgreSQL's half is awaited, the one in ZooKeeper is there.
sub waits
{
	my ($where) = @_;

	$victim->wait_for_lock;
	is($far->query(q(SELECT pg_try_advisory_xact_lock(1))), 'f', '... while the other half is taken')
	  if $where eq 'PostgreSQL';
	return;
}

for ([ $other, 'PostgreSQL' ], [ $far, 'ZooKeeper' ])
{
	my ($holder, $where) = @$_;

	$victim->query(q(SET lock_timeout = '100ms'));
	fails("lock_timeout in $where", 'pg_advisory_lock(1)', $holder, qr/^ERROR:  55P03/);
	$victim->query(q(SET lock_timeout = 0; SET statement_timeout = '100ms'));
	fails("statement_timeout in $where", 'pg_advisory_lock_shared(1)', $holder, qr/^ERROR:  57014/);
	$victim->query('SET statement_timeout = 0');
	fails("a cancel in $where", 'pg_advisory_lock(1)', $holder, qr/^ERROR:  57014/,
		sub { waits($where); $observers[0]->query("SELECT pg_cancel_backend($pid)") });
	fails("a try in $where", 'pg_try_advisory_lock(1)', $holder, qr/^f$/);
}

# A key that is taken here costs no request, even the first time.
$other->query('SELECT pg_advisory_lock(1)');
$proxy->mark;
is($victim->query('SELECT pg_try_advisory_lock(1), pg_try_advisory_xact_lock_shared(1)'), 'f|f',
	"a key that 'server' has is refused");
is(join(' ', map { $_->{op} } $proxy->requests), '', '... without a request');
$other->query('SELECT pg_advisory_unlock(1)');

# Errors in ZooKeeper after PostgreSQL's half, and the other way round
$victim->query('SELECT zk_lock_acquire($$/other$$); SET zklock.max_locks_per_backend = 1');
fails('too many locks', "pg_${_}advisory_lock(1)", undef, qr/^ERROR:  53400/) for '', 'try_';
$victim->query('RESET zklock.max_locks_per_backend; SELECT zk_lock_release_all()');

$other->query(q(CREATE FUNCTION fill() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN FOR i IN 1 .. 1000000 LOOP PERFORM pg_advisory_lock_shared(2, i); END LOOP;
	EXCEPTION WHEN OTHERS THEN NULL; END $$));
$other->query('SELECT fill()');
like($victim->query('SELECT pg_advisory_lock(1)'), qr/^ERROR:  53200/, "no room in PostgreSQL's lock table");
like($victim->query('SELECT pg_try_advisory_lock(1)'), qr/^ERROR:  53200/, '... also for a try');
$other->query('SELECT pg_advisory_unlock_all()');
is(found($victim), '; ; 0', '... leaves nothing');

# ZooKeeper does not answer a try.
$victim->query(q(SET zklock.try_timeout = '1s'));
for my $cancel (0, 1)
{
	fails($cancel ? 'a cancelled try' : 'a try without an answer', 'pg_try_advisory_lock(1)', undef,
		$cancel ? qr/^ERROR:  57014/ : qr/^ERROR:  0800[16]/, sub {
			wait_until("PostgreSQL's half is taken", sub {
				$observers[0]->query(sprintf($has, $pid)) =~ /^1 Ex/ || $victim->is_done });
			$observers[0]->query("SELECT pg_cancel_backend($pid)") if $cancel;
		}, 'silent');
}
$victim->query('RESET zklock.try_timeout');

# Cancels at random moments, beside loops of a session with 'server' and one of the other server:
# both halves are there, or none.
my $loop = 'DO $$ BEGIN LOOP PERFORM %s; PERFORM pg_advisory_unlock(1); END LOOP; END $$';
$_->start(sprintf($loop, 'pg_advisory_lock(1)')) for $other, $far;
my %states;
for my $round (1 .. 60)
{
	$victim->start(sprintf($loop, $round % 2 ? 'pg_advisory_lock(1)' :
		'pg_sleep(0.0001); WHILE NOT pg_try_advisory_lock(1) LOOP END LOOP'));
	$observers[0]->query("SELECT pg_sleep(0.02 * random()), pg_cancel_backend($pid)");
	wait_until('the loop is cancelled', sub {
		$victim->is_done || !$observers[0]->query("SELECT pg_cancel_backend($pid)") });
	$states{ found($victim) }++;
	$victim->query('SELECT pg_advisory_unlock_all()');
}
note("$_: $states{$_}") for sort keys %states;
is(join(' or ', grep { !/^(?:; ; 0|1 ExclusiveLock; 1 write 1\+0; 1)$/ } sort keys %states), '',
	'a cancel leaves both halves, or none');
$_->safe_psql('postgres', q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		WHERE query LIKE 'DO $$ BEGIN LOOP%'))
  for @nodes;
$_->result for $other, $far;
$_->query('SELECT pg_advisory_unlock_all()') for $victim, $other, $far;
is(found($victim), '; ; 0', '... and nothing is left when all are released');

# A deadlock between the halves of one key, and one of two keys
sub deadlock
{
	my ($what, $first, $second, @statements) = @_;

	$first->start($statements[0]);
	$first->wait_for_lock;
	$second->start($statements[1]);
	my ($loser, $winner);
	wait_until("$what: one fails", sub {
		($loser, $winner) = $first->is_done ? ($first, $second) : ($second, $first);
		return $loser->is_done;
	});
	like($loser->result, qr/^ERROR:  40P01/, "$what: a deadlock");
	my $release = q(SET zklock.advisory_locks = 'both'; SELECT pg_advisory_unlock_all());
	$loser->query($release);
	is($winner->result, '', '... the other one has its lock when the first has released its own');
	$winner->query($release);
	is(found($_), '; ; 0', '... and nothing is left') for $first, $second;
	return;
}
$other->query('SELECT pg_advisory_lock(1)');
$other->query(q(SET zklock.advisory_locks = 'both'));
deadlock("who holds as 'server' and waits as 'both'", $victim, $other, ('SELECT pg_advisory_lock(1)') x 2);
for my $order (0, 1)
{
	my @two = ($victim, $other)[ $order, 1 - $order ];

	$other->query(q(SET zklock.advisory_locks = 'server'; SELECT pg_advisory_lock(2)));
	$victim->query(q(SELECT pg_advisory_lock(1)));
	deadlock("two keys with 'both' and 'server', order $order", @two,
		map { 'SELECT pg_advisory_lock(' . ($_ == $victim ? 2 : 1) . ')' } @two);
}
$other->query(q(SET zklock.advisory_locks = 'server'));

# Statements from before a change of the setting
is($victim->query(q(SET zklock.advisory_locks = 'server'; PREPARE p AS SELECT pg_advisory_lock(1); EXECUTE p)), '',
	'a prepared statement');
is(found($victim), '1 ExclusiveLock; ; 1', "... takes one lock with 'server'");
$victim->query(q(SET zklock.advisory_locks = 'both'; EXECUTE p));
is(found($victim), '1 ExclusiveLock; 1 write 1+0; 1', "... and two with 'both'");
$victim->query(q(SET zklock.advisory_locks = 'cluster'; EXECUTE p));
is(found($victim), '1 ExclusiveLock; 1 write 2+0; 1', "... and one in ZooKeeper with 'cluster'");
$victim->query(q(SET zklock.advisory_locks = 'both'; SELECT pg_advisory_unlock_all()));
is(found($victim), '; ; 0', '... and all are released');
$victim->query(q(BEGIN; DECLARE c CURSOR FOR SELECT pg_advisory_xact_lock(1);
	SET zklock.advisory_locks = 'server'; FETCH c));
is(found($victim), '1 ExclusiveLock; 1 write 0+1; 1', "a cursor of 'both' takes both after a change to 'server'");
$victim->query(q(ROLLBACK; SET zklock.advisory_locks = 'server';
	BEGIN; DECLARE c CURSOR FOR SELECT pg_advisory_xact_lock(1); SET LOCAL zklock.advisory_locks = 'both'; FETCH c));
is(found($victim), '1 ExclusiveLock; ; 1', "... and one of 'server' only PostgreSQL's");
$victim->query(q(ROLLBACK; SET zklock.advisory_locks = 'both';
	BEGIN; DECLARE c CURSOR FOR SELECT pg_advisory_xact_lock(1); SAVEPOINT s; FETCH c; ROLLBACK TO s));
is(found($victim), '1 ExclusiveLock; ; 1',
	"what a cursor takes after a later savepoint is PostgreSQL's alone after a rollback to that");
$victim->query('COMMIT');
is(found($victim), '; ; 0', '... until the transaction ends');
$victim->query(q(ROLLBACK; SET zklock.advisory_locks = 'both'));
is($victim->query(q(BEGIN; SELECT zk_advisory.pg_advisory_xact_lock(1))), '',
	"with 'both', a call of the extension's function");
is(found($victim), '1 ExclusiveLock; 1 write 0+1; 1', '... takes both');
$victim->query('ROLLBACK');

# A prefix is one of paths.
$other->query(q(SET zklock.path_prefix = '/team'; SET zklock.advisory_locks = 'both'));
is($victim->query('SELECT pg_advisory_lock(1)'), '', "a lock with 'both'");
is($other->query('SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(2)'), 'f|t',
	'... excludes sessions with another prefix on its server');
$_->query('SELECT pg_advisory_unlock_all()') for $victim, $other;
is($other->query(q(RESET zklock.path_prefix; SET zklock.advisory_locks = 'server')), '', '... while it is held');

# What is seen
my $rows = q(SELECT string_agg(pid || ' ' || mode || ' ' || granted, ', ' ORDER BY granted DESC, pid)
	FROM zk_advisory.pg_locks
	WHERE locktype = 'advisory' AND (pid = %d OR pid = %d));
my $looker = ZkTest->new($nodes[0], 'zklock.advisory_locks' => 'both');
my $third = ZkTest->new($nodes[0], 'zklock.advisory_locks' => 'both');

sub seen
{
	my @pids = map { $_->pid } @_;

	return $looker->query(sprintf($rows, @pids)) =~ s/\b(\d+)(?= \w+Lock)/$1 == $pids[0] ? 'one' : 'two'/ger;
}
sub blockers { return $looker->query("SELECT pg_blocking_pids(${\ $_[0]->pid})") }

$victim->query('SELECT pg_advisory_lock(1)');
$third->start('SELECT pg_advisory_lock(1)');
$third->wait_for_lock;
wait_until('the waiter knows that it waits', sub { seen($victim, $third) =~ /two/ });
is(seen($victim, $third), 'one ExclusiveLock true, two ExclusiveLock false',
	'a holder has one row, and a waiter in ZooKeeper, too');
is(blockers($third), "{$pid}", '... which is blocked by the holder');
$victim->query('SELECT pg_advisory_unlock(1)');
is($third->result, '', '... until that releases it');
$third->query('SELECT pg_advisory_unlock(1)');
$other->query('SELECT pg_advisory_lock(1)');
$victim->start('SELECT pg_advisory_lock(1)');
$victim->wait_for_lock;
is(seen($victim, $other), 'two ExclusiveLock true, one ExclusiveLock false',
	"a waiter for a holder with 'server' has one row");
is(blockers($victim), "{${\ $other->pid}}", '... and that blocks it');
$third->start('SELECT pg_advisory_lock(1)');
wait_until('another one waits behind', sub { seen($victim, $third) =~ /two/ });
is(blockers($third), "{$pid}", '... which blocks the next');
$other->query('SELECT pg_advisory_unlock(1)');
is($victim->result, '', '... until it has the lock');
is($victim->query('SELECT pg_advisory_unlock(1)'), 't', '... and releases it');
is($third->result, '', '... for the next');
$third->query(q(SELECT pg_advisory_unlock(1)));

# The rules that one half takes the other one with it, and libraries that lack them. The session
# in ZooKeeper has ended when the other server gets the lock.
sub lose
{
	my ($code) = @_;

	$proxy->refuse;
	$proxy->cut;
	$code->();
	wait_until('the session in ZooKeeper has ended', sub {
		$far->query('SELECT pg_try_advisory_xact_lock(1)') eq 't' });
	$proxy->accept;
	return;
}

# A lock is forgotten when a statement has failed because of its loss, and ZooKeeper is back.
sub forget
{
	my ($session) = @_;

	wait_until('the lost lock is forgotten', sub {
		$session->query('SELECT pg_try_advisory_xact_lock_shared(3)') eq 't' && found($session) !~ /write/ });
	return;
}

# Locks that 'server' releases
sub unlocked_elsewhere
{
	my ($session) = @_;

	$session->query(q(SET zklock.advisory_locks = 'both'; SELECT pg_advisory_lock(1), pg_advisory_lock(1);
		SET zklock.advisory_locks = 'server'; SELECT pg_advisory_unlock(1)));
	is(found($session), '1 ExclusiveLock; 1 write 2+0; 1', "of two locks with 'both', 'server' releases one");
	$session->query(q(BEGIN; SELECT pg_advisory_unlock(1)));
	is(found($session), '; 1 write 2+0; 0', "... and the other in a transaction");
	$session->query(q(COMMIT));
	return found($session);
}

# Locks of one key at two paths: PostgreSQL's half of one is released with a third path, and that of
# the other one with the lock of the first.
sub unlocked_at_another_path
{
	my ($session) = @_;

	$session->query(q(SET zklock.advisory_locks = 'both'));
	$session->query("SET zklock.path_prefix = '$_'; SELECT pg_advisory_lock(1)") for '/one', '/two';
	is($session->query(q(SET zklock.path_prefix = '/three'; SELECT pg_advisory_unlock(1))), 't',
		"of two paths' locks, PostgreSQL's half of one is released");
	is(found($session), '1 ExclusiveLock; 1 write 1+0, 1 write 1+0; 1', '... and the locks stay');
	is($session->query(q(SET zklock.path_prefix = '/one'; SELECT pg_advisory_unlock(1))), 't', '... until one is released');
	$session->query('RESET zklock.path_prefix');
	return found($session);
}

# Lost locks, of which a statement tells
sub lost
{
	my ($session) = @_;

	$session->query(q(SET zklock.advisory_locks = 'both'; SELECT pg_advisory_lock(1), pg_advisory_lock(1)));
	lose(sub {
		wait_until('the loss is known', sub {
			$session->query('SELECT pg_try_advisory_xact_lock_shared(3)') =~ /ERROR:  40001/ });
	});
	forget($session);
	return found($session);
}

is(unlocked_elsewhere($victim), '; ; 0', "a lock that 'server' has released is released in ZooKeeper");
is(unlocked_at_another_path($victim), '; ; 0', '... and the other one with it');
is(lost($victim), '; ; 0', 'a lock that is lost is released in PostgreSQL');

# While PostgreSQL's half is awaited
for my $scope ('', '_xact')
{
	$other->query('SELECT pg_advisory_lock(1)');
	$victim->query('SET zklock.advisory_locks = $$both$$; BEGIN');
	$victim->start("SELECT pg_advisory${scope}_lock(1)");
	wait_until(
		"PostgreSQL's half is awaited",
		sub {
			$observers[0]->query(
				"SELECT count(*) FROM pg_catalog.pg_locks WHERE pid = $pid AND NOT granted") eq '1';
		});
	lose(sub {
		like($victim->result, qr/^ERROR:  40001/, "a loss during the wait for PostgreSQL's half, scope '$scope'") });
	$victim->query('ROLLBACK');
	forget($victim);
	is(found($victim), '; ; 0', '... leaves nothing');
	$other->query('SELECT pg_advisory_unlock(1)');
}

# A session that has lost its lock and is not told yet has PostgreSQL's half.
$victim->query(q(SELECT pg_advisory_lock(1)));
lose(sub { });
$third->start('SELECT pg_advisory_lock(1)');
wait_until("PostgreSQL's half of the lost lock is awaited", sub {
	$observers[0]->query(
		"SELECT count(*) FROM pg_catalog.pg_locks WHERE pid = ${\ $third->pid} AND NOT granted") eq '1' });
is($far->query(q(SELECT pg_try_advisory_xact_lock(1))), 'f', 'while it is awaited, no server gets the lock');
like($victim->query('SELECT 1'), qr/^ERROR:  40001/, '... until the session is told of the loss');
is($third->result, '', '... which releases it');
$third->query('SELECT pg_advisory_unlock(1)');
forget($victim);

# Whoever is terminated leaves nothing.
$other->query('SELECT pg_advisory_lock(1)');
$victim->start('SELECT pg_advisory_lock(1)');
$victim->wait_for_lock;
$observers[0]->query("SELECT pg_terminate_backend($pid)");
like($victim->result, qr/^FATAL:  57P01/, 'a session is terminated between the halves');
$victim->close;
is($far->query(q(SELECT attempt('pg_try_advisory_xact_lock(1)', 'true'))), 'true', '... and gives the lock up');
$_->close for $other, $third, $looker;

my %mutants = (
	"a lock that 'server' has released stays" => [
		'advisory/pair.c' =>
		sub { s/^\tzklock_hold_drop_pairs\(is_released\)/\t(void) is_released/m },
		\&unlocked_elsewhere, '; 1 write 2+0; 0' ],
	'PostgreSQL is asked only once after a release' => [
		'advisory/pair.c' => sub { s/^\tmay_have_ended = has_pairs;/\tmay_have_ended = false;/m },
		\&unlocked_at_another_path, '; 1 write 1+0; 0' ],
	'a lost lock stays in PostgreSQL' => [
		'backend/locktable.c' =>
		sub { s/^\thold->session_count = 0;\n(?=\tzklock_locktable_ungrant)//m },
		\&lost, '1 ExclusiveLock; ; 1' ]);
for my $what (server_mode() ? () : sort keys %mutants)
{
	my ($file, $change, $check, $found) = @{ $mutants{$what} };

	$_->close for @observers;
	build_zklock($nodes[0], [], $file => $change);
	@observers = ZkTest->new($nodes[0]);
	my $session = ZkTest->new($nodes[0]);
	is($check->($session), $found, "a library in which $what is detected");
	$session->close;
}
$far->close;

done_testing();
