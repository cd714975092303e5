# What programs send for their advisory locks, in the order of their sources, on two servers, one
# after the other: the first takes a free lock, the second sees that it is taken, and has it after
# the release, and nothing is left. With 'server', both have it. Programs that take each error for
# a lock that is taken see one while ZooKeeper does not answer.
#
# The keys are the programs' own, or are made as they make them from a name.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my @nodes = map { new_node($_, $zk->hosts, shared_preload_libraries => 'zklock') } qw(a b);
$_->safe_psql('postgres', q(CREATE EXTENSION zklock_advisory; CREATE TABLE jobs ())) for @nodes;
my @observers = map { ZkTest->new($_) } @nodes;

# Returns what DistributedLock sends as one, with a timeout in ms.
sub batch
{
	my ($timeout, $function) = @_;

	return "SET LOCAL statement_timeout = 0\\; SET LOCAL lock_timeout = $timeout\\; "
	  . "SELECT pg_catalog.$function(4294967298) AS result";
}
my $timed_out = qr/^ERROR:  55P03: [^\n]+\n(?:(?:LOCATION|CONTEXT|DETAIL): [^\n]+\n?)*\z/;
my $holding = q(SELECT COUNT(*) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
	WHERE l.locktype = 'advisory' AND (l.classid = 1 AND l.objid = 2 AND l.objsubid = 1)
		AND l.pid = pg_catalog.pg_backend_pid() AND d.datname = pg_catalog.current_database());
my $exists = q(SELECT 1 FROM pg_locks WHERE locktype = 'advisory'
	AND database = (SELECT oid FROM pg_database WHERE datname = CURRENT_DATABASE())
	AND classid = 1897899845 AND objid = 0 AND mode = 'ExclusiveLock' LIMIT 1);
my $column = 'AS t0123456789abcdef0123456789abcdef /* reports */';
my $savepoint = 'SAVEPOINT medallion_threading_postgres_advisory_lock_acquire';
my $restore = 'SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0';

# For each program, the statements that
#	prepare	those with parameters
#	begin	each try or wait
#	take	the lock
#	give_up	after a try that is refused
#	look	at the lock, and the results for its holder, whose pid is %pid, then on the other server,
#			and while nobody has it
#	release	it; if there is none, the program disconnects
# and the results of "take" if it is refused, for those that do not wait, or if the lock is taken,
# and of "give_up" and "release".
my @programs = (
	# https://github.com/ClosureTree/with_advisory_lock 7.5.0,
	# lib/with_advisory_lock/postgresql_advisory.rb, core_advisory.rb
	{
		name => 'with_advisory_lock',
		take => "SELECT pg_try_advisory_lock(1897899845,0) $column",
		refused => 'f',
		taken => 't',
		look => [ $exists, '1', '', '' ],
		release => "SELECT pg_advisory_unlock(1897899845,0) $column",
		released => 't',
	},
	{
		name => 'with_advisory_lock, blocking',
		take => "SELECT pg_advisory_lock(1897899845,0) $column",
		taken => '',
		look => [ $exists, '1', '', '' ],
		release => "SELECT pg_advisory_unlock(1897899845,0) $column",
		released => 't',
	},

	# https://github.com/madelson/DistributedLock 2.8.1,
	# src/DistributedLock.Postgres/PostgresAdvisoryLock.cs
	{
		name => 'DistributedLock, without a timeout',
		take => batch(0, 'pg_try_advisory_lock'),
		refused => 'f',
		taken => 't',
		look => [ $holding, '1', '0', '0' ],
		release => 'SELECT pg_catalog.pg_advisory_unlock(4294967298)',
		released => 't',
	},
	{
		name => 'DistributedLock, with a timeout',
		take => batch(2000, 'pg_advisory_lock'),
		refused => $timed_out,
		taken => '',
		look => [ $holding, '1', '0', '0' ],
		release => 'SELECT pg_catalog.pg_advisory_unlock(4294967298)',
		released => 't',
	},
	{
		name => 'DistributedLock, in a transaction',
		begin => "BEGIN; $savepoint",
		take => batch(2000, 'pg_advisory_xact_lock'),
		refused => $timed_out,
		give_up => "ROLLBACK TO $savepoint; $restore; $holding; ROLLBACK",
		given_up => '0',
		taken => '',
		look => [ $holding, '1', '0', '0' ],
		release => "$restore; COMMIT",
		released => '',
	},

	# https://github.com/flyway/flyway 13.0.0, PostgreSQLAdvisoryLockTemplate.java in
	# flyway-database/flyway-database-postgresql: it reads the column by its name, and its
	# transaction stays open meanwhile
	{
		name => 'Flyway',
		begin => 'BEGIN',
		take => "SELECT pg_try_advisory_xact_lock(77433833903597) \\gset\n\\echo :pg_try_advisory_xact_lock\n",
		refused => 'f',
		taken => 't',
		release => 'COMMIT',
		released => '',
	},
	{
		name => 'Flyway, without a transaction',
		take => "SELECT pg_try_advisory_lock(77433833903597) \\gset\n\\echo :pg_try_advisory_lock\n",
		refused => 'f',
		taken => 't',
		release => 'SELECT pg_advisory_unlock(77433833903597)',
		released => 't',
	},

	# https://github.com/blagerweij/liquibase-sessionlock 1.6.10,
	# src/main/java/com/github/blagerweij/sessionlock/PGLockService.java
	{
		name => q(Liquibase's session lock),
		prepare => q(PREPARE take (int, int) AS SELECT pg_try_advisory_lock($1,$2);
			PREPARE look (int, int) AS SELECT l.pid, a.client_hostname, a.backend_start, a.state
				FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
				WHERE l.locktype = 'advisory' AND l.classid = $1 AND l.objid = $2 AND l.objsubid = 2 AND l.granted;
			PREPARE release (int, int) AS SELECT pg_advisory_unlock($1,$2)),
		take => 'EXECUTE take(-755096828, -977423767)',
		refused => 'f',
		taken => 't',
		look => [ 'EXECUTE look(-755096828, -977423767)', qr/^%pid\|\|[^|]+\|active$/, '', '' ],
		release => 'EXECUTE release(-755096828, -977423767)',
		released => 't',
	},

	# https://github.com/golang-migrate/migrate 4.19.1, database/postgres/postgres.go; its process
	# gives up after 15 s
	{
		name => 'golang-migrate',
		prepare => q(PREPARE take (bigint) AS SELECT pg_advisory_lock($1);
			PREPARE release (bigint) AS SELECT pg_advisory_unlock($1)),
		take => q(EXECUTE take('143310882')),
		taken => '',
		release => q(EXECUTE release('143310882')),
		released => 't',
	},

	# https://github.com/pressly/goose 3.27.3, lock/postgres.go
	{
		name => 'goose',
		prepare => q(PREPARE take (bigint) AS SELECT pg_try_advisory_lock($1);
			PREPARE release (bigint) AS SELECT pg_advisory_unlock($1)),
		take => 'EXECUTE take(4097083626)',
		refused => 'f',
		taken => 't',
		release => 'EXECUTE release(4097083626)',
		released => 't',
	},

	# https://github.com/launchbadge/sqlx 0.9.0-alpha.1, sqlx-postgres/src/migrate.rs, testing/mod.rs
	{
		name => 'sqlx',
		prepare => q(PREPARE take (bigint) AS SELECT pg_advisory_lock($1);
			PREPARE release (bigint) AS SELECT pg_advisory_unlock($1)),
		take => 'EXECUTE take(368907709894077238)',
		taken => '',
		release => 'EXECUTE release(368907709894077238)',
		released => 't',
	},
	{
		name => q(sqlx's tests),
		begin => 'BEGIN',
		take => 'select pg_advisory_xact_lock(8318549251334697844)\; create schema if not exists _sqlx_test',
		taken => qr/^(?:NOTICE: [^\n]*\n(?:LOCATION: [^\n]*\n?)?)?\z/,
		release => 'COMMIT',
		released => '',
	},

	# https://github.com/prisma/prisma-engines, in
	# schema-engine/connectors/sql-schema-connector/src/flavour/postgres.rs; its process gives up
	# after 10 s, and does not release the lock otherwise, either
	{
		name => 'Prisma Migrate',
		take => 'SELECT pg_advisory_lock(72707369)',
		taken => '',
	},

	# https://github.com/elixir-ecto/ecto_sql 3.14.0, lib/ecto/adapters/postgres.ex
	{
		name => 'Ecto',
		take => 'SELECT pg_try_advisory_lock(110225001)',
		refused => 'f',
		taken => 't',
		release => 'SELECT pg_advisory_unlock(110225001)',
		released => 't',
	},

	# https://github.com/oban-bg/oban 2.23.1, lib/oban/engines/basic.ex
	{
		name => 'Oban',
		prepare => q(PREPARE take (bigint) AS SELECT pg_try_advisory_xact_lock($1)),
		begin => 'BEGIN',
		take => 'EXECUTE take(176020111)',
		refused => 'f',
		give_up => 'COMMIT',
		given_up => '',
		taken => 't',
		release => 'INSERT INTO jobs DEFAULT VALUES; COMMIT',
		released => '',
	});

# Is it this result, or does it match?
sub is_result
{
	my ($got, $expected, $what) = @_;

	return ref $expected ? like($got, $expected, $what) : is($got, $expected, $what);
}

sub nothing_is_left
{
	my ($what) = @_;

	for my $observer (@observers)
	{
		wait_until("$what: no lock is shown", sub {
			$observer->query(q(SELECT count(*) FROM zk_advisory.pg_locks WHERE locktype = 'advisory')) eq '0' });
	}
	wait_until("$what: ZooKeeper has no node", sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t0$/m });
	return pass("$what: nothing is left");
}

# Starts the program on a server.
sub program
{
	my ($program, $i, $set) = @_;
	my $session = ZkTest->new($nodes[$i], 'zklock.advisory_locks' => $set)->connect;

	$session->query($program->{prepare}) if $program->{prepare};
	return $session;
}

# Begins to take the lock.
sub take
{
	my ($program, $session) = @_;

	$session->query($program->{begin}) if $program->{begin};
	$session->start($program->{take});
	return $session;
}

sub release
{
	my ($program, $session, $what) = @_;

	is_result($session->query($program->{release}), $program->{released}, "$what releases the lock")
	  if $program->{release};
	$session->close;
	return;
}

sub look
{
	my ($program, $session, $holder, $i, $what) = @_;
	my $pid = $holder->pid;
	my $look = $program->{look} or return;
	my $expected = $look->[$i];

	$expected = qr/${\ ($expected =~ s{%pid}{$pid}r)}/ if ref $expected;
	return is_result($session->query($look->[0]), $expected, $what);
}

# Tries again as long as the lock is taken. Returns the result then.
sub retry
{
	my ($program, $session) = @_;
	my ($refused, $give_up) = @$program{qw(refused give_up)};
	my $result;

	wait_until('the lock is free', sub {
		$give_up ? take($program, $session) : $session->start($program->{take});
		$result = $session->result;
		return 1 if ref $refused ? $result !~ $refused : $result ne $refused;
		$session->query($give_up) if $give_up;
		return 0;
	});
	return $result;
}

sub play
{
	my ($program, $set) = @_;
	my ($name, $refused, $taken, $give_up) = @$program{qw(name refused taken give_up)};
	my @sessions = map { program($program, $_, $set) } 0, 1;

	look($program, $sessions[1], $sessions[0], 3, "$name, '$set': nobody has the lock");
	is_result(take($program, $sessions[0])->result, $taken, "$name, '$set': takes a free lock");
	look($program, @sessions[0, 0], 1, '... and sees it');
	if ($set eq 'server')
	{
		is_result(take($program, $sessions[1])->result, $taken, '... the other server, too');
		release($program, $_, '... each') for @sessions;
		return nothing_is_left('...');
	}
	take($program, $sessions[1]);
	if (defined $refused)
	{
		is_result($sessions[1]->result, $refused, '... the other server does not');
		is($sessions[1]->query($give_up), $program->{given_up}, '... and gives up') if $give_up;
		look($program, @sessions[ 1, 0 ], 2, '... and does not see it');
	}
	else
	{
		# Who gives up disconnects, without a cancellation.
		my $other = program($program, 1, $set);

		$_->wait_for_lock for $sessions[1], take($program, $other);
		$other->close;
	}
	release($program, $sessions[0], '...');
	is_result(defined $refused ? retry($program, $sessions[1]) : $sessions[1]->result, $taken,
		'... which the other one then has');
	look($program, @sessions[ 1, 1 ], 1, '... and sees');
	release($program, $sessions[1], '... the other server');
	return nothing_is_left('...');
}

for my $set (qw(server cluster both))
{
	play($_, $set) for @programs;
}

# What else the programs do with these statements
my %programs = map { $_->{name} => $_ } @programs;

for my $set (qw(cluster both))
{
	my $session = program($programs{'with_advisory_lock'}, 0, $set);
	my ($take, $release) = @{ $programs{'with_advisory_lock'} }{qw(take release)};

	# with_advisory_lock releases a lock in a failed transaction, after a rollback.
	$session->query("BEGIN; $take; SELECT 1/0");
	like($session->query($release), qr/^ERROR:  25P02/, "with_advisory_lock, '$set': a release in a failed transaction");
	is($session->query("ROLLBACK; $release; BEGIN; COMMIT"), 't', '... works after the rollback');

	# It may try to take an exclusive lock in addition to a shared one of its own.
	my $shared = $take =~ s/_lock/_lock_shared/r;
	is($session->query($shared), 't', '... has a shared lock');
	like($session->query($take), qr/^ERROR:  40P01/, '... and cannot have an exclusive one in addition');
	is($session->query($release =~ s/_unlock/_unlock_shared/r), 't', '... and releases it');
	$session->close;

	# DistributedLock looks whether it has a lock after all when the wait for it has timed out. With
	# 'both', a session with 'server' also competes.
	my @loops = (ZkTest->new($nodes[1], 'zklock.advisory_locks' => $set),
		$set eq 'both' ? ZkTest->new($nodes[0], 'zklock.advisory_locks' => 'server') : ());
	my $key = 4294967298;
	$session = program($programs{'DistributedLock, with a timeout'}, 0, $set);
	$_->start("DO \$\$ BEGIN LOOP PERFORM pg_advisory_lock($key); PERFORM pg_sleep(0.001 * random());
		PERFORM pg_advisory_unlock($key); END LOOP; END \$\$") for @loops;
	my %held;
	wait_until('waits have timed out, and others have not', sub {
		my $out = $session->query(join("; ", map {
			("SELECT 'wait'", batch($_ % 4 + 1, 'pg_advisory_lock'), $holding, "SELECT FROM pg_advisory_unlock($key)")
		} 1 .. 50));

		$held{$1 ? 'timed out' : 'granted'}{$2}++ while $out =~ /^wait\n(ERROR:  55P03)?.*?^([01])$/gms;
		return $held{granted} && ($held{'timed out'}{0} // 0) + ($held{'timed out'}{1} // 0) >= 50;
	});
	is(join(' ', sort keys %{ $held{'timed out'} }), '0',
		"DistributedLock, '$set': nothing is held after a timeout ($held{'timed out'}{0} times)");
	is(join(' ', sort keys %{ $held{granted} }), '1', "... and the lock otherwise ($held{granted}{1} times)");
	$observers[$_]->query("SELECT pg_cancel_backend(${\ $loops[1 - $_]->pid})") for $set eq 'both' ? (0, 1) : 1;
	$_->result for @loops;
	$_->close for $session, @loops;
	nothing_is_left('...');
}

# ZooKeeper does not answer. Ecto takes an error for a lock that is taken, and tries again. Oban ends
# its transaction with COMMIT, which PostgreSQL rolls back. Each program runs on both servers.
my @waiting;
for my $name (qw(Ecto Oban))
{
	for my $set (qw(cluster both))
	{
		my $session = program($programs{$name}, $set eq 'both' ? 1 : 0, $set);

		is(take($programs{$name}, $session)->result, 't', "$name, '$set': has the lock");
		is($session->query($programs{$name}{release}), $programs{$name}{released}, '... and releases it');
		push(@waiting, [ $name, $set, $session ]);
		nothing_is_left('...');
	}
}
$_->query('TRUNCATE jobs') for @observers;
$zk->pause;
$_->[2]->start(($programs{ $_->[0] }{begin} ? 'BEGIN; INSERT INTO jobs DEFAULT VALUES; ' : '')
	. $programs{ $_->[0] }{take}) for @waiting;
for (@waiting)
{
	my ($name, $set, $session) = @$_;

	like($session->result, qr/^ERROR:  08006: /, "$name, '$set': a try without an answer fails");
	$session->query('COMMIT') if $name eq 'Oban';
}
is($_->query(q(SELECT (SELECT count(*) FROM jobs),
		(SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory'))), '0|0',
	'... so no job is inserted, and no lock of the server is left')
  for @observers;
$zk->resume;
for (@waiting)
{
	my ($name, $set, $session) = @$_;
	my $program = $programs{$name};

	wait_until("$name has the lock", sub {
		return 1 if take($program, $session)->result eq 't';
		$session->query('ROLLBACK') if $program->{begin};
		return 0;
	});
	release($program, $session, "$name, '$set': has the lock when ZooKeeper answers, and");
}
nothing_is_left('then');

done_testing();
