# Waits in the server's session that are ended at random moments, in each way that
# there is, before they are served, while they wait for others of the server or of
# another, or when they have just got the lock: each ends in exactly one way, and
# nothing is left.
#
# Runs once: of server mode.

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
my %server = ('zklock.session' => 'server', max_connections => 40);
my ($node, $other) = map { new_node($_, $zk->hosts, %server) } qw(a b);
my $control = ZkTest->new($node);
my @paths = map { "/storm/$_" } qw(free local remote both);
my %rivals = (
	'/storm/local' => [$node],
	'/storm/remote' => [$other],
	'/storm/both' => [ $node, $other, $node, $other ]);

# Those who take and give the lock all the time
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

# What there is to be seen of a session
sub claims_of
{
	my ($session) = @_;

	return $control->query(
		"SELECT path, granted FROM zk_locks WHERE pid = ${\ $session->pid}");
}

my %strike = (
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

# Without the timeout that may strike this as well.
sub reset_timeout
{
	my ($victim) = @_;

	wait_until(
		'there is no timeout',
		sub {
			$victim->query('RESET statement_timeout; SHOW statement_timeout') =~ /^0$/m;
		});
	return;
}

srand(42);
for my $way (sort keys %strike)
{
	my %ended;
	my @victims = map { ZkTest->new($node) } 1 .. VICTIMS;
	my $wrong = 0;

	for my $round (1 .. ROUNDS / VICTIMS)
	{

		# No two on one path: who has the lock keeps it until all are done.
		my @path = shuffle(@paths);
		my @blows = map {
			$strike{$way}->($victims[$_], "SELECT zk_lock_acquire('$path[$_]')")
		} 0 .. $#victims;

		for my $i (0 .. $#victims)
		{
			sleep(rand(0.006));
			$blows[$i]->();
		}
		for my $i (0 .. $#victims)
		{
			my $victim = $victims[$i];

			# The blow may fall when the lock has been granted and told.
			my $result = $victim->result =~ s/^t\n(?=ERROR|FATAL)//r;
			my $end =
			    $result eq 't' ? 'held'
			  : $result eq 'f' ? 'given up'
			  : $result =~ /^(?:ERROR|FATAL):  (57014|55P03|57P01|08006): / ? $1
			  : $result;

			$ended{$end}++;
			if ($way eq 'pg_terminate_backend')
			{
				wait_until('nothing is left of it', sub { claims_of($victim) eq '' });
				$victim->close;
				$victims[$i] = ZkTest->new($node);
				next;
			}

			reset_timeout($victim) if $way eq 'statement_timeout';

			# A cancel may come when the statement has the lock already, and keeps it
			# as it would an advisory lock; but lock_timeout is about the wait.
			my $claims = claims_of($victim);
			my $has = $claims eq "$path[$i]|t";

			$wrong++
			  if $end eq 'held' ? !$has
			  : $claims ne '' && !($has && $way =~ /cancel|statement/);
			$victim->query('SELECT zk_lock_release_all()');
		}
	}
	note("$way: " . join(', ', map { "$ended{$_} $_" } sort keys %ended));
	# No word from ZooKeeper in so short a time is an error.
	is( join(',', grep { !/^(?:held|$ends{$way})$/ } keys %ended),
		'', "$way: each wait ends as it should");
	is($wrong, 0, '... and only who says so has a lock');
	ok(!$_->[0]->is_done, '... and nobody else was hit') for @rivals;
	$_->close for @victims;
}

for (@rivals)
{
	my ($rival, $home) = @$_;

	$home->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $rival->pid})");
	like($rival->result, qr/^ERROR:  57014: /, 'a rival is ended');
	$rival->query('SELECT zk_lock_release_all()');
}
wait_for_calm($_, $zk, @paths) for $node, $other;
is( $control->query(
		"SELECT zk_lock_acquire('$_', '0') AND zk_lock_release('$_')"),
	't', "$_ is free")
  for @paths;

done_testing();
