# The statements of docs/recipes.md and docs/choosing.md, on two servers
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Docs;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my ($a, $b) = map { new_node($_, $zk->hosts, shared_preload_libraries => 'zklock') } qw(a b);
my $proxy = ZkProxy->new($zk->hosts);
my @blocks = map { sql_blocks($_) } 'docs/recipes.md', 'docs/choosing.md';
my %session = map { $_->[0] => ZkTest->new($_->[1]) }
  [ a => $a ], [ b => $b ], [ c => $b ], [ 'the owner of the data' => $a ],
  [ 'the forgetful program' => $b ], [ 'the administrator of that server' => $b ];
my %waits;    # names of sessions

# The first server leads at first, and the other one is in the queue behind it.
for my $node ($a, $b)
{
	$node->safe_psql('postgres', q(ALTER SYSTEM SET zklock.leaders = '/leaders/cron'));
	$node->reload;
	wait_until('the server is in the queue', sub {
		$node->safe_psql('postgres', 'SELECT state FROM zk_leaders') =~ /^(leads|waits)$/ });
}
($session{'the server that leads'}, $session{'the other server'}) = map { ZkTest->new($_) } $a, $b;

# The leader has a session of its own, which the test can end.
$session{'the leader'} = ZkTest->new($a,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '2s');

# The address that the page leaves to its readers
for my $statement (map { @{ $_->{statements} } } @blocks)
{
	my %address = (host => $a->host, port => $a->port);

	$statement->[0] =~ s/\b(host|port) '[^']+'/$1 '$address{$1}'/g
	  if $statement->[0] =~ /^CREATE SERVER /;
}

# Sessions that use a short timeout have to be connected before.
$_->query(q(SELECT zk_lock_acquire('/hello'), zk_lock_release('/hello')))
  for values %session;

# A release does not wait for ZooKeeper: waits until only nodes of held locks
# are left.
sub wait_for_releases
{
	my $held = 2;    # those of the leaders

	for my $answer (map { $_->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()') }
		values %session)
	{
		$held += $answer if $answer =~ /^\d+$/;    # the page ends one of them
	}
	wait_until('released locks are free',
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t$held$/m });
	return;
}

cmp_ok(scalar @blocks, '>', 25, 'pages have statements');
for my $block (@blocks)
{
	my @names = $block->{as} eq 'both' ? qw(a b) : $block->{as};

	ok(@{ $block->{statements} } > 0, "block for $block->{as} has statements");
	for my $name (@names)
	{
		is($session{$name}->result, 't', 'a lock is waited for until now') if delete $waits{$name};
		wait_for_releases() if !%waits;
		for my $statement (@{ $block->{statements} })
		{
			my ($sql, $said) = @$statement;

			if ($said ne 'waits')
			{
				run_documented($session{$name}, $statement);
				next;
			}
			$session{$name}->start($sql);
			$waits{$name} = 1;
			wait_until("waits: $sql",
				sub { $session{'the owner of the data'}->query(
						'SELECT count(*) FROM zk_lock_blockers') eq '1' });
		}
	}
}

# The numbers that are given twice, with each kind of lock
my @scripts = code_blocks('docs/recipes.md', 'sh');
is(scalar @scripts, 1, 'page has commands');
for my $lock (q(zk_lock_guard('/tickets')), 'pg_advisory_xact_lock(1)')
{
	local $ENV{PGHOST} = $a->host;
	local $ENV{PGPORT} = $a->port;
	local $ENV{PGDATABASE} = 'postgres';
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $script = $scripts[0] =~ s/zk_lock_guard\('.tickets'\)/$lock/gr;
	my ($own, $early) = (0, 0);

	# On a busy machine, the clients may not meet.
	for (my $turn = 0; $turn < 20 && $early == 0 && $own == 0; $turn++)
	{
		my ($out, $err) = run_command([ 'sh', '-c', "cd $dir\n$script" ]);

		($early) = $out =~ /^early\|(\d+)$/m or die "$out\n$err";
		($own) = $out =~ /^own\|(\d+)$/m or die "$out\n$err";
	}
	cmp_ok($early, '>', 0, "numbers are given twice with $lock in the statement that reads");
	is($own, 0, '... and none with a statement of its own');
	diag("$early of 60 numbers were given twice");
}

# When the session of the leader ends, another worker follows.
$session{b}->start(q(SELECT zk_lock_acquire('/workers/mail', scope => 'session')));
wait_for_queue($zk, '/workers/mail', @session{qw(a b)});
$session{a}->close;
is($session{b}->result, 't', 'next worker becomes the leader when its session ends');

# A leader whose node is deleted gets an error at commit, and can become the
# leader again.
$session{b}->query(q(SET zklock.confirm_commit = 'always'));
$zk->delete("/workers/mail/$_") for $zk->children('/workers/mail');
like($session{b}->query(q(BEGIN; SELECT 1; COMMIT)),
	qr/^ERROR:  40001:/m, 'leader without a node gets an error');
is($session{b}->query(q(SELECT zk_lock_acquire('/workers/mail', '5s', scope => 'session'))),
	't', '... and can become the leader again');

# The connection of the leader closes at once.
$proxy->refuse;
$proxy->cut;
wait_until('the connection of the leader closes',
	sub {
		$session{'the owner of the data'}->query("SELECT count(*) FROM pg_stat_activity
			WHERE pid = ${\ $session{'the leader'}->pid}") eq '0';
	});

done_testing();
