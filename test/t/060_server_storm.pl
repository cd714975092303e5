# Waits in the server's session end at random moments, in each way that there
# is: before the worker has seen them, while they wait for backends of the same
# or of another server, or just after the lock is granted. Each wait ends in
# exactly one way, and no node or claim is left.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Worker;
use ZkServer;
use ZkTest;

use constant {
	VICTIMS => 4,
	ROUNDS => 120,
};

my $zk = ZkServer->new->start;
my %server = ('zklock.session_mode' => 'server', max_connections => 40);
my ($node, $other) = map { new_node($_, $zk->hosts, %server) } qw(a b);
my $control = ZkTest->new($node);
my @paths = map { "/storm/$_" } qw(free local remote both);
my %rivals = (
	'/storm/local' => [$node],
	'/storm/remote' => [$other],
	'/storm/both' => [ $node, $other, $node, $other ]);

# Sessions that acquire and release the locks in a loop
my @rivals;
for my $path (sort keys %rivals)
{
	for my $home (@{ $rivals{$path} })
	{
		my $rival = ZkTest->new($home);
		$rival->start(qq(
			DO \$\$ BEGIN
				LOOP
					PERFORM zk_lock_acquire('$path');
					PERFORM pg_sleep(0.003);
					PERFORM zk_lock_release('$path');
				END LOOP;
			END \$\$));
		push @rivals, [ $rival, $home ];
	}
}

# Returns the claims of a session.
sub claims_of
{
	my ($session) = @_;

	return $control->query(
		"SELECT path, granted FROM zk_locks WHERE pid = ${\ $session->pid}");
}

my %interrupt = (
	pg_cancel_backend => sub {
		my ($victim, $sql) = @_;

		$victim->start($sql);
		return sub { $control->query("SELECT pg_cancel_backend(${\ $victim->pid})") };
	},
	pg_terminate_backend => sub {
		my ($victim, $sql) = @_;

		$victim->start($sql);
		return sub { $control->query("SELECT pg_terminate_backend(${\ $victim->pid})") };
	},
	statement_timeout => sub {
		my ($victim, $sql) = @_;

		$victim->start(
			"SET statement_timeout = ${\ (1 + int(rand(15)))}; $sql");
		return sub { };
	},
	lock_timeout => sub {
		my ($victim, $sql) = @_;

		$victim->start(
			"SET lock_timeout = ${\ (1 + int(rand(15)))}; $sql; RESET lock_timeout");
		return sub { };
	},
	timeout => sub {
		my ($victim, $sql) = @_;

		$sql =~ s/\)$/', timeout => '${\ int(rand(15))}ms')/;
		$sql =~ s/'', /', /;
		$victim->start($sql);
		return sub { };
	});

my %ends = (
	pg_cancel_backend => '57014',
	pg_terminate_backend => '57P01',
	statement_timeout => '57014',
	lock_timeout => '55P03',
	timeout => 'given up|08006');

# Resets the timeout. statement_timeout can cancel this statement, too.
sub reset_timeout
{
	my ($victim) = @_;

	wait_until(
		'the timeout is reset',
		sub {
			$victim->query('RESET statement_timeout; SHOW statement_timeout') =~ /^0$/m;
		});
	return;
}

srand(42);
for my $way (sort keys %interrupt)
{
	my %ended;
	my @victims = map { ZkTest->new($node) } 1 .. VICTIMS;
	my $wrong = 0;

	for my $round (1 .. ROUNDS / VICTIMS)
	{

		# Each victim has its own path: a holder keeps the lock until all are
		# done.
		my @path = shuffle(@paths);
		my @interrupts = map {
			$interrupt{$way}->($victims[$_], "SELECT zk_lock_acquire('$path[$_]')")
		} 0 .. $#victims;

		for my $i (0 .. $#victims)
		{
			sleep(rand(0.006));
			$interrupts[$i]->();
		}
		for my $i (0 .. $#victims)
		{
			my $victim = $victims[$i];

			# The victim can be hit after the lock was granted and the result
			# sent.
			my $result = $victim->result =~ s/^t\n(?=ERROR|FATAL)//r;
			my $end =
			    $result eq 't' ? 'held'
			  : $result eq 'f' ? 'given up'
			  : $result =~ /^(?:ERROR|FATAL):  (57014|55P03|57P01|08006): / ? $1
			  : $result;

			$ended{$end}++;
			if ($way eq 'pg_terminate_backend')
			{
				wait_until('its claims are gone', sub { claims_of($victim) eq '' });
				$victim->close;
				$victims[$i] = ZkTest->new($node);
				next;
			}

			reset_timeout($victim) if $way eq 'statement_timeout';

			# A cancellation can come when the lock is already granted. The
			# backend keeps it, like an advisory lock. But lock_timeout applies
			# to the wait only.
			my $claims = claims_of($victim);
			my $has = $claims eq "$path[$i]|t";

			$wrong++
			  if $end eq 'held' ? !$has
			  : $claims ne '' && !($has && $way =~ /cancel|statement/);
			$victim->query('SELECT zk_lock_release_all()');
		}
	}
	note("$way: " . join(', ', map { "$ended{$_} $_" } sort keys %ended));
	# If ZooKeeper does not answer in so short a time, that is an error.
	is( join(',', grep { !/^(?:held|$ends{$way})$/ } keys %ended),
		'', "$way: each wait ends as expected");
	is($wrong, 0, '... and a victim has the lock only if its result says so');
	ok(!$_->[0]->is_done, '... and no other session was hit') for @rivals;
	$_->close for @victims;
}

for (@rivals)
{
	my ($rival, $home) = @$_;

	$home->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $rival->pid})");
	like($rival->result, qr/^ERROR:  57014: /, 'rival runs until it is cancelled itself');
	$rival->query('SELECT zk_lock_release_all()');
}
wait_until_idle($_, $zk, @paths) for $node, $other;
is( $control->query(
		"SELECT zk_lock_acquire('$_', '0') AND zk_lock_release('$_')"),
	't', "lock $_ is free")
  for @paths;

done_testing();
