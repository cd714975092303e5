# Common parts of the interoperation tests: parties that acquire a lock with
# any of the clients, and the properties that each set of parties must have.
#
#	my @parties = (ours($session, 'exclusive', '/a/b'),
#		theirs($actor, 'mutex', '/a/b'));

package Interop;

use strict;
use warnings;

use Exporter qw(import);
use Peer;
use Test::More;
use ZkTest;

our @EXPORT = qw(counting_node ours theirs parties nodes wait_until_gone
  get_turns give_up see_each_other no_deadlock count_together crowd_together);

# A server with functions that the parties call while they hold the lock: first
# f(), and then f() with the result of the first call. The functions fail if
# another party violates the lock.
sub counting_node
{
	my ($hosts) = @_;
	my $node = new_node('main', $hosts);

	$node->safe_psql('postgres', q(
		-- who writes, alone
		CREATE TABLE counter (n int);
		CREATE FUNCTION bump() RETURNS int LANGUAGE sql
			AS 'SELECT n FROM counter';
		CREATE FUNCTION bump(seen int) RETURNS int LANGUAGE sql
			AS 'UPDATE counter SET n = seen + 1 RETURNING n';

		-- who only reads
		CREATE FUNCTION look() RETURNS int LANGUAGE sql
			AS 'SELECT n FROM counter';
		CREATE FUNCTION look(seen int) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN
			ASSERT (SELECT n FROM counter) = seen;
			RETURN seen;
		END $$;

		-- a few at a time, who count themselves; each stays for a moment, so
		-- that there is something to count
		CREATE TABLE inside (pid int);
		CREATE TABLE crowds (n int);
		CREATE FUNCTION crowd() RETURNS int LANGUAGE sql
			AS 'INSERT INTO inside VALUES (pg_backend_pid()) RETURNING pid';
		CREATE FUNCTION crowd(me int) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_sleep(0.005);
			INSERT INTO crowds SELECT count(*) FROM inside;
			DELETE FROM inside WHERE pid = me;
			RETURN me;
		END $$));
	return $node;
}

# A party in a database session, whose kind is a mode, 'semaphore-of-' and a number,
# or 'semaphore-counted', whose size is below /counts.
sub ours
{
	my ($session, $kind, $path) = @_;
	my ($acquire, $release, $round);

	# Between two statements of a round, the holder of a lease commits so that
	# others see its row. So the hold must survive a commit.
	if ($kind =~ /^semaphore-(?:of-(.*)|counted)/)
	{
		my $call =
		  defined $1
		  ? "zk_semaphore_acquire('$path', $1"
		  : "zk_semaphore_acquire_counted('$path', '/counts$path'";

		$acquire = "$call, TIMEOUT)";
		$release = "zk_semaphore_release('$path')";
		$round = "
			PERFORM $call);
			seen := WORK();
			COMMIT;
			PERFORM WORK(seen);
			COMMIT;
			PERFORM $release;";
	}
	else
	{
		$acquire = "zk_lock_acquire('$path', TIMEOUT, '$kind')";
		$release = "zk_lock_release('$path', '$kind')";
		$round = "
			PERFORM zk_lock_guard('$path', mode => '$kind');
			seen := WORK();
			PERFORM WORK(seen);
			COMMIT;";
	}
	return bless {
		name => "our $kind",
		shared => $kind eq 'shared',
		session => $session,
		acquire => sub {
			my $timeout = @_ ? "'$_[0] ms'" : 'NULL';

			return "SELECT $acquire" =~ s/TIMEOUT/$timeout/r;
		},
		release => "SELECT $release",
		contend => sub {
			my ($rounds, $work) = @_;

			return "
				DO \$\$
				DECLARE
					seen int;
				BEGIN
					FOR i IN 1 .. $rounds LOOP
						$round
					END LOOP;
				END \$\$;
				SELECT true" =~ s/WORK/$work/gr;
		}
	}, 'Interop::Party';
}

# A party that uses a peer program, of one of the peer's kinds
sub theirs
{
	my ($actor, $kind, $path) = @_;

	return bless {
		name => "their $kind",
		shared => $kind eq 'read',
		session => $actor,
		acquire => sub { join(' ', 'acquire', $kind, $path, @_) },
		release => "release $kind $path",
		contend => sub { join(' ', 'contend', $kind, $path, @_) },
		contenders => "contenders $kind $path"
	}, 'Interop::Party';
}

# Returns a party with zklock for each session, and one with the peer, in
# turns. The kinds are used in turns.
sub parties
{
	my ($path, $sessions, $ours, $peer, $theirs) = @_;

	return map {
		ours($sessions->[$_], $ours->[ $_ % @$ours ], $path),
		  theirs($peer->actor, $theirs->[ $_ % @$theirs ], $path)
	} 0 .. $#$sessions;
}

# The nodes of a lock's holders and waiters, or a semaphore's.
sub nodes
{
	my ($zk, $path) = @_;

	return grep { !/^(locks|leases)$/ }
	  map { $zk->children($_) } $path, "$path/locks", "$path/leases";
}

sub wait_until_gone
{
	my ($zk, $path) = @_;

	wait_until("no nodes at $path", sub { !nodes($zk, $path) });
	return;
}

# The parties begin one after the other and release the lock one after the
# other. Each is granted the lock in its turn, and not before.
sub get_turns
{
	my ($zk, $path, $slots, @parties) = @_;
	my (@got, @expected);

	wait_until_gone($zk, $path);
	for my $i (0 .. $#parties)
	{
		my $waits = !_is_turn($slots, @parties[ 0 .. $i ]);

		# A party that begins has one node, and sometimes a second one for a
		# moment. A waiter for a lease has two, and keeps later ones from the
		# same stage.
		my $nodes = $i + 1;
		$nodes++ if $waits && $parties[0]{name} =~ /semaphore/;
		$parties[$i]->start_acquire;
		$parties[$i]->result if !$waits;
		wait_until("$parties[$i]{name} is in the queue",
			sub { nodes($zk, $path) == $nodes });
	}

	for my $first (0 .. $#parties)
	{
		my @there = $first .. $#parties;
		my @inside =
		  grep { _is_turn($slots, @parties[ $first .. $_ ]) } @there;

		push(@expected, join(', ', map { "$_: t" } @inside));
		$parties[$_]->result for @inside;
		push(@got,
			join(', ',
				map { "$_: " . $parties[$_]->result }
				grep { $parties[$_]->is_done } @there));
		$parties[$first]->release;
	}
	is_deeply(\@got, \@expected,
		'all parties get the lock in turn: ' . join(', ', map { $_->{name} } @parties));
	wait_until_gone($zk, $path);
	return;
}

# Is it the last one's turn? It is if fewer than $slots of the earlier parties
# still hold a lock that it cannot share.
sub _is_turn
{
	my ($slots, @line) = @_;
	my $last = pop(@line);

	return $slots > grep { !($last->{shared} && $_->{shared}) } @line;
}

# A party that times out leaves no node, and can try again.
sub give_up
{
	my ($zk, $path, $holder, $other) = @_;

	is($holder->acquire, 't', "$holder->{name} has the lock");

	# A party can have two nodes for a moment.
	my ($node) = wait_until("$holder->{name} has one node",
		sub { my @nodes = nodes($zk, $path); return @nodes == 1 && $nodes[0] });
	for my $ms (0, 200)
	{
		my $answer;

		# On a busy machine, the time can be over before ZooKeeper has
		# answered.
		wait_until(
			'the holder is known',
			sub {
				$answer = $other->acquire($ms);
				return $answer !~ /^ERROR:  08/;
			});
		is($answer, 'f', "... $other->{name} does not get it in $ms ms");
		wait_until('the nodes of the failed attempt are gone',
			sub { join(' ', nodes($zk, $path)) eq $node });
	}
	$holder->release;
	wait_until_gone($zk, $path);
	is($other->acquire(0), 't', '... and gets it at once when it is free');
	$other->release;
	wait_until_gone($zk, $path);
	return;
}

# Each side can list the contenders of the other side.
sub see_each_other
{
	my ($zk, $path, $ours, $theirs) = @_;

	is($theirs->acquire, 't', "$theirs->{name} has the lock");
	my ($node) = nodes($zk, $path);
	like($ours->{session}->query("SELECT zk_lock_guard('$path', '0')"),
		qr/^DETAIL:  .*"\Q$node\E"/m, '... zklock shows its data');
	wait_until('the node of that attempt is gone', sub { nodes($zk, $path) == 1 });
	$ours->start_acquire;
	wait_until("$ours->{name} is in the queue", sub { nodes($zk, $path) == 2 });
	like(
		$theirs->{session}->query($theirs->{contenders}),
		qr/; host=\S+ port=\d+ pid=${\ $ours->{session}->pid} /,
		"... the peer shows the data of zklock's waiter");
	$theirs->release;
	is($ours->result, 't', '... zklock notices that it has gone');
	$ours->release;
	wait_until_gone($zk, $path);
	return;
}

# A peer has a lock and waits for another one, and zklock does so in the opposite order.
# What the threads of a peer wait for is not known, so this is no deadlock.
sub no_deadlock
{
	my ($zk, $path, $session, $peer, $kind) = @_;
	my ($first, $second) = map { ours($session, 'exclusive', "$path/$_") } 1, 2;
	my ($holder, $waiter) = map { theirs($peer->actor, $kind, "$path/$_") } 1, 2;

	$session->query(q(SET deadlock_timeout = '100ms'));
	is($holder->acquire, 't', "$holder->{name} has a lock");
	is($second->acquire, 't', '... zklock has another one');
	$waiter->start_acquire;
	wait_until("... for which $waiter->{name} waits", sub { nodes($zk, "$path/2") == 2 });
	is($first->acquire(1000), 'f', '... and zklock waits for the first one: no deadlock');
	$first->start_acquire;
	wait_until('zklock waits again', sub { nodes($zk, "$path/1") == 2 });
	$holder->release;
	is($first->result, 't', '... and is granted it');
	$_->release for $first, $second;
	is($waiter->result, 't', "... and then $waiter->{name} the other one");
	$waiter->release;
	$session->query('RESET deadlock_timeout');
	return;
}

# All parties work concurrently, $rounds rounds each.
sub contend
{
	my ($rounds, $work, @parties) = @_;

	my $seconds = seconds_of(
		sub {
			$_->{session}->start($_->{contend}->($rounds, $work->($_)))
			  for @parties;
			is( join(', ', map { "$_->{name}: " . $_->result } @parties),
				join(', ', map { "$_->{name}: t" } @parties),
				'all parties are done');
		});
	note(sprintf('%d rounds in %.1f seconds', $rounds * @parties, $seconds));
	return;
}

# Parties that can share the lock read the counter, the others increment it.
sub count_together
{
	my ($node, $rounds, @parties) = @_;

	$node->safe_psql('postgres',
		'DELETE FROM counter; INSERT INTO counter VALUES (0)');
	contend($rounds, sub { $_[0]{shared} ? 'look' : 'bump' }, @parties);
	is($node->safe_psql('postgres', 'SELECT n FROM counter'),
		$rounds * grep({ !$_->{shared} } @parties), '... no increment is lost');
	return;
}

# At some time $slots of the parties are inside, but never more.
sub crowd_together
{
	my ($node, $rounds, $slots, @parties) = @_;

	contend($rounds, sub { 'crowd' }, @parties);
	is($node->safe_psql('postgres', 'SELECT max(n) FROM crowds'),
		$slots, "... up to $slots at a time");
	return;
}

package Interop::Party;

sub is_done
{
	my ($self) = @_;

	return $self->{session}->is_done;
}

sub result
{
	my ($self) = @_;

	return $self->{session}->result;
}

sub start_acquire
{
	my ($self, @ms) = @_;

	$self->{session}->start($self->{acquire}->(@ms));
	return;
}

sub acquire
{
	my ($self, @ms) = @_;

	$self->start_acquire(@ms);
	return $self->{session}->result;
}

# Dies if there is no lock to release.
sub release
{
	my ($self) = @_;
	my $answer = $self->{session}->query($self->{release});

	die "$self->{name} did not release: $answer\n" if $answer ne 't';
	return;
}

1;
