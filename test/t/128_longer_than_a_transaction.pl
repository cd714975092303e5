# docs/longer-locks.md, through PgBouncer with pool_mode = transaction: its statements; the
# transaction that stays open; the reservation, also under load with faults. (make reservations
# loads it for longer, also without each of its parts.)
#
# Left out of make test: it takes long.
# Runs first: it takes long.
# Runs once: one server has a ZooKeeper session for each backend, the other one session.

use strict;
use warnings;

use Docs;
use File::Copy qw(copy);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/../reservations";
use Check qw(violations);
use Child;
use Reservations;
use Stage;
use Time::HiRes qw(time);
use ZkTest;

$ENV{PATH} .= ':/usr/sbin';
plan skip_all => 'there is no PgBouncer'
  if !grep { -x "$_/pgbouncer" } split(/:/, $ENV{PATH});

use constant SECONDS => 8;    # of load

my $seed = $ENV{SEED} // int(rand(1_000_000));
my $main_pid = $$;
my $trial;

# Runs before the END blocks that stop all servers.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;

		$trial->stop if $trial;
		$? = $status;
	}
}

# Two holders in turn, each with two transactions at a time, on two servers
sub history
{
	my @turns = (
		{ number => 1, former => '', deadline => 0, holder => 'x', by_hand => 'f', at => 1 },
		{ number => 2, former => 'x', deadline => 4, holder => 'y', by_hand => 'f', at => 5 });
	my @work = (
		{ holder => 'x', server => 'a', entered => 2, seen => 0, committed => 3 },
		{ holder => 'x', server => 'b', entered => 2.5, seen => 0, committed => 3.5 },
		{ holder => 'y', server => 'a', entered => 6, seen => 1, committed => 8 },
		{ holder => 'y', server => 'a', entered => 7, seen => 1, committed => 7.5 });

	return (\@turns, \@work);
}

is_deeply([ violations(history()) ], [], 'correct history has no violation');
my @wrong = (
	'a reservation before its time' => [ sub { $_[0][1]{at} = 3.9 }, qr/^too early: y/ ],
	'work before that of the former holder is committed' =>
	  [ sub { $_[1][1]{committed} = 6.5 }, qr/^overlap: \[x on b.* and \[y on a, 6/ ],
	'work after that of the next holder' =>
	  [ sub { $_[1][0]{committed} = 9 }, (qr/^overlap: \[x on a.* and \[y on a/) x 2 ],
	'work that was not seen' => [ sub { $_[1][3]{seen} = 0 }, qr/^0 rows of others, not 1: \[y/ ],
	'work of the next holder that was seen' =>
	  [ sub { $_[1][1]{seen} = 1 }, qr/^1 rows of others, not 0: \[x/ ]);

while (my ($what, $case) = splice(@wrong, 0, 2))
{
	my ($spoil, @expected) = @$case;
	my @history = history();

	$spoil->(@history);
	my @found = violations(@history);
	ok(@found == @expected && !(grep { $found[$_] !~ $expected[$_] } 0 .. $#found), "found: $what")
	  or diag(join("\n", @found));
}

my $dir = PostgreSQL::Test::Utils::tempdir_short();
copy("$FindBin::RealBin/../reservations/$_", $dir) or die "$_: $!\n" for @Reservations::files;
$trial = Reservations->new(pg_config('bindir'), $dir, $seed);
$trial->start;
$trial->prepare;

my ($zk, %pg) = ($trial->{zk}, %{ $trial->{pg} });
my %pool = %{ $trial->{pool} };
my %direct = map { $_ => ZkTest->new($pg{$_}) } qw(a b);
my $job = '/jobs/import';

# The statements of the page
my %session = (
	(map { $_ => ZkTest->new($pool{$_}) } qw(a b)),
	(map { $_ => ZkTest->new($pool{a}) } 'the holder', 'a connection for the work', 'another job'),
	'the owner of the data' => $direct{a});

for my $block (sql_blocks(Reservations::PAGE))
{
	for my $name ($block->{as} eq 'both' ? qw(a b) : $block->{as})
	{
		for my $statement (@{ $block->{statements} })
		{
			run_documented($session{$name}, $statement);

			# The other connections of the program know what psql keeps in variables.
			for my $variable (map { / AS (\w+)/g } $statement->[0] =~ /^(.*\\gset)/s)
			{
				my $value = $session{$name}->query("SELECT :'$variable'");

				$_->query("\\set $variable $value\nSELECT 1") for values %session;
			}
		}
	}
}

# The transaction that stays open. The holder of the page, on a, still has its lock; another
# one is on b.
sub value
{
	my ($session, $variable) = @_;

	return $session->query("SELECT :'$variable'");
}

my $token = value($session{b}, 'token');
my %holder = (a => delete $session{'the holder'}, b => ZkTest->new($pool{b}));
my %path = (a => '/jobs/export', b => '/jobs/other');
my $open = q(BEGIN; SET LOCAL zklock.on_loss = 'disconnect';
	CALL zk_lock_wait('%s', '1 hour', scope => 'transaction'));

is($holder{b}->query(sprintf($open, $path{b})), '', 'holder on b has a lock');
for my $name (qw(a b))
{
	my $pid = $direct{$name}->query(
		"SELECT pid FROM zk_lock_status() WHERE path = '$path{$name}' AND granted");

	is( $direct{$name}->query("SELECT state, backend_xid, backend_xmin FROM pg_stat_activity
			WHERE pid = $pid"),
		'idle in transaction||',
		"$name: the transaction has neither transaction ID nor snapshot");
	$direct{$name}->query(q(
		SET statement_timeout = '60s';
		CREATE TABLE t AS SELECT generate_series(1, 1000) n;
		DELETE FROM t));
	is($direct{$name}->query('CREATE INDEX CONCURRENTLY t_n ON t (n)'),
		'', '... CREATE INDEX CONCURRENTLY does not wait for it');
	is($direct{$name}->query(q(VACUUM t; SELECT pg_relation_size('t'))),
		'0', '... and VACUUM removes what was deleted');

	my $next = ZkTest->new($pool{$name});
	$next->start(sprintf($open, $path{$name}) . ';' . q(SELECT 'has it'));
	wait_until('the next holder waits',
		sub { $direct{$name}->query(
				"SELECT count(*) FROM zk_locks WHERE path = '$path{$name}' AND NOT granted") eq '1' });
	my $begin = time();
	$holder{$name}->close;
	is($next->result, 'has it', 'when the client ends, the next one has the lock');
	cmp_ok(time() - $begin, '<', Reservations::SESSION_TIMEOUT / 2, '... at once');
	$holder{$name} = $next;
}

# The fence of the work is on a.
my $worker = $session{'a connection for the work'};
my ($next_token, $next_number) = split(/\|/, $holder{a}->query(
	"SELECT zk_lock_token('$path{a}'), zk_lock_grant_number('$path{a}')"));
cmp_ok($next_token, '>', $token, 'the next holder has a later token');
is($worker->query("SELECT zk_fence('$path{a}', $next_token, $next_number) > 0"),
	't', '... and fences');
like($worker->query("SELECT zk_fence('$path{a}', $token, 0)"),
	qr/^ERROR:  40001:/m, '... so that the former one is refused');
my $fence = "SELECT zk_fence('$path{a}', $next_token, $next_number) > 0";
my $beside = ZkTest->new($pg{a});
is($worker->query("BEGIN; $fence"), 't', 'a transaction passes the fence');
is($beside->query($fence), 't', '... another one passes it at the same time');
$beside->start("BEGIN; SELECT zk_fence('$path{a}', ${\ ($next_token + 1)}) > 0; ROLLBACK");
$beside->wait_for_event('Lock');
is($worker->query('COMMIT'), '', '... and one of a later holder waits for its commit');
is($beside->result, 't', '... and passes it then');
$beside->close;

# The loss: PgBouncer disconnects the clients, which are idle.
my %pid = map {
	$_ => $direct{$_}->query(
		"SELECT pid FROM zk_lock_status() WHERE path = '$path{$_}' AND granted")
} qw(a b);
$zk->pause;
for my $name (qw(a b))
{
	wait_until("$name: the holder's backend has ended",
		sub { $direct{$name}->query("SELECT count(*) FROM pg_stat_activity
			WHERE pid = $pid{$name}") eq '0' });
	wait_until('PgBouncer disconnects its client',
		sub { $pool{$name}{child}->output =~ /C-\S+ .*closing because: server conn crashed/ });
	unlike($holder{$name}->query('SELECT 1'), qr/^1$/m,
		"$name: the client of a lost lock is disconnected");
}
$zk->resume;

# The reservation. These sessions take locks with a short timeout.
for my $session (@session{qw(a b)})
{
	wait_until('locks can be taken again',
		sub { $session->query(q(SELECT zk_lock_acquire('/hello', '5s', scope => 'transaction'))) eq 't' });
}
$trial->install_load;

my $id;

sub reserve
{
	my ($ttl) = @_;

	return $id = $session{a}->query("SELECT reserve('$job', '$ttl')");
}

sub enter
{
	my ($session) = @_;

	return $session->query("BEGIN; SELECT enter('$job', '$id')");
}

my $admin = ZkTest->new($pg{a});
for my $name (qw(a b))
{
	like(reserve('1 hour'), qr/^[-0-9a-f]{36}$/, "$name: reserved");
	is(enter($session{$name}), '', '... and entered');
	is($session{$_}->query("SELECT extend('$job', '$id', '1 hour')"),
		't', "... extended through $_ meanwhile")
	  for $name eq 'a' ? 'b' : 'a';
	$admin->start("UPDATE reservation SET holder = gen_random_uuid() WHERE path = '$job'");
	$admin->wait_for_event('Lock');
	pass('... an UPDATE by hand waits for the transaction');
	is($session{$name}->query('COMMIT'), '', '... which commits');
	is($admin->result, '', '... and lets it continue');
	like(enter($session{$name}), qr/^ERROR:  55000: reservation of "$job" is over/m,
		'... nobody can enter with the former id');
	$session{$name}->query('ROLLBACK');
	$admin->query("UPDATE reservation SET until = '-infinity' WHERE path = '$job'");
}

# Why the lock is in a view, and the deadline in a variable
reserve('1 hour');
$admin->query(q(SET statement_timeout = '200ms'));
$session{b}->query("BEGIN; SELECT FROM reservation WHERE path = '$job' FOR KEY SHARE");
like($admin->query("SELECT extend('$job', '$id', '1 hour')"),
	qr/^ERROR:  57014:/m, 'with FOR KEY SHARE in a foreign table, extend would wait');
$session{b}->query('COMMIT');
enter($session{a});
like(
	$session{b}->query("SET statement_timeout = '200ms';
		UPDATE reservation SET until = clock_timestamp() WHERE path = '$job'"),
	qr/^ERROR:  57014:/m,
	'... and with clock_timestamp() in an UPDATE of a foreign table');
$session{b}->query('RESET statement_timeout');
$session{a}->query('COMMIT');
$admin->query("RESET statement_timeout;
	UPDATE reservation SET holder = NULL, until = '-infinity' WHERE path = '$job'");

# What b reads of a first determines what it sees of it.
reserve('1 hour');
$session{b}->query('BEGIN; SELECT * FROM elsewhere');
$admin->query("UPDATE reservation SET until = clock_timestamp() + '1 day' WHERE path = '$job'");
is($session{b}->query("SELECT enter('$job', '$id')"),
	'', 'a transaction that has read a foreign table can enter after a change of the time');
$session{b}->query('COMMIT; BEGIN; SELECT * FROM elsewhere');
$admin->query("UPDATE reservation SET holder = gen_random_uuid() WHERE path = '$job'");
like($session{b}->query("SELECT enter('$job', '$id')"),
	qr/^ERROR:  40001:/m, '... and not after a change of the holder');
$session{b}->query('ROLLBACK');
$admin->query("UPDATE reservation SET holder = NULL, until = '-infinity' WHERE path = '$job'");

# Nobody has reserved after the time of the holder.
reserve('0');
is(enter($session{b}), '', 'the former holder can enter after its time');
is($session{a}->query("SELECT extend('$job', '$id', '0')"), 't', '... and extend the reservation');
$session{b}->query('COMMIT');

# Pollers get it in time: it is extended until all of them poll, and once more.
reserve('1 hour');
my @logs = map { $pool{$_}{child} } qw(a b);
my $logins = () = map { $_->output =~ /login attempt/g } @logs;
$trial->start_client("poller $_", 'worker', 60_000) for 1 .. 9;
wait_until('all pollers poll',
	sub { (() = map { $_->output =~ /login attempt/g } @logs) >= $logins + 18 });
is($session{a}->query("SELECT extend('$job', '$id', '2s')"), 't', 'extended for the last time');
wait_until('a poller has it',
	sub { $admin->query("SELECT count(*) FROM turn WHERE former = '$id' AND holder IS NOT NULL") });
my $late = $admin->query("SELECT extract(epoch FROM at - deadline) FROM turn WHERE former = '$id'");
cmp_ok($late, '>', 0, 'a poller gets it after its time');
cmp_ok($late, '<', 1, '... within a second');
$trial->end_clients;

# Without ZooKeeper, on one server
$trial->install('without the lock');
reserve('0');
$session{a}->query("BEGIN; SELECT enter('$job', '$id')");
$session{'another job'}->start("SELECT reserve('$job', '0') IS NOT NULL");
wait_until('reserve waits',
	sub { $direct{a}->query('SELECT count(*) FROM pg_locks WHERE NOT granted') ne '0' });
$session{a}->query('COMMIT');
is($session{'another job'}->result,
	't', 'without ZooKeeper, reserve waits for an entered transaction on the server of the table');
$_->close for values %session, values %direct, $admin;

# The load
$trial->install;
my $round = $trial->play(SECONDS, with_faults => 2);

is_deeply($round->{violations}, [], "load has no violation, SEED=$seed");
cmp_ok($round->{transactions}{$_}, '>', 0, "... and work on $_") for qw(a b);
cmp_ok($round->{holders}, '>', 1, '... of several holders');
cmp_ok(scalar keys %{ $round->{faults} }, '>', 1, '... with faults');

done_testing();
