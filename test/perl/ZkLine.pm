# Database sessions that go through a fault: one that holds a lock, two that
# wait for it in the queue, and one in a transaction that has a lock and has
# written.
#
#	my $line = ZkLine->new($zk, '/shop', [ $node_a, $node_b ]);
#	$line->form;
#	...                # the fault
#	$line->kept_ok('the leader is killed');
#	$line->finish_ok;

package ZkLine;

use strict;
use warnings;

use Test::More;
use ZkTest;

# Limit for "at once", or for the end of a timeout of a second: generous,
# because the machine may be busy.
use constant SOON => 15;

# Locks are below $path, and $zk is used to find their holders. The sessions
# use the nodes in turns; %settings are theirs.
sub new
{
	my ($class, $zk, $path, $nodes, %settings) = @_;
	my ($holder, $first, $second, $writer) =
	  map { ZkTest->new($nodes->[ $_ % @$nodes ], %settings) } (0 .. 3);

	# A commit waits for a confirmation for as long.
	my $patience = $writer->query(
		q(SELECT setting::int / 1000 * 5 / 8 FROM pg_settings WHERE name = 'zklock.session_timeout'));

	$writer->query(
		qq(SET client_min_messages = warning;
		   CREATE TABLE IF NOT EXISTS stock (path text, n int);
		   INSERT INTO stock VALUES ('$path', 0)));
	return bless {
		zk => $zk,
		path => $path,
		holder => $holder,
		waiters => [ $first, $second ],
		writer => $writer,
		commits => 0,
		patience => $patience,
	}, $class;
}

sub holder
{
	my ($self) = @_;

	return $self->{holder};
}

sub writer
{
	my ($self) = @_;

	return $self->{writer};
}

sub waiters
{
	my ($self) = @_;

	return @{ $self->{waiters} };
}

# Lets all sessions take their places.
sub form
{
	my ($self) = @_;
	my ($zk, $path) = ($self->{zk}, "$self->{path}/line");
	my @line = ($self->holder, $self->waiters);

	for my $last (0 .. $#line)
	{
		$line[$last]->start("SELECT zk_lock_acquire('$path')");
		wait_for_queue($zk, $path, @line[ 0 .. $last ]);
	}
	$self->holder->result;
	$self->{owners}{line} = $zk->owners($path);
	$self->write;
	return;
}

# The writer begins a transaction.
sub write
{
	my ($self) = @_;

	$self->{writer}->query(
		qq(BEGIN;
		   UPDATE stock SET n = n + 1 WHERE path = '$self->{path}';
		   SELECT zk_lock_guard('$self->{path}/stock')));
	wait_for_queue($self->{zk}, "$self->{path}/stock", $self->{writer});
	$self->{owners}{stock} = $self->{zk}->owners("$self->{path}/stock");
	return;
}

# Checks that all sessions have kept their places, and that the waiters have
# not been granted the lock.
sub kept_ok
{
	my ($self, $what) = @_;

	for my $name (sort keys %{ $self->{owners} })
	{
		is_deeply(
			$self->{zk}->owners("$self->{path}/$name"),
			$self->{owners}{$name},
			"$what: all sessions and places in the queue are kept ($name)");
	}
	is(scalar(grep { $_->is_done } @{ $self->{waiters} }),
		0, '... and no waiter is granted the lock');
	return;
}

# Checks that the writer's commit is refused in time.
sub refused_ok
{
	my ($self, $what) = @_;

	my $answer = $self->{writer}->query(q(SET LOCAL zklock.connect_timeout = '1s'));
	$answer = $self->{writer}->outlive_lease if $answer eq '';
	my $seconds = seconds_of(
		sub {
			my $end = $self->{writer}->query('COMMIT');

			$answer = $end if $answer eq 't';
		});
	like($answer, qr{^ERROR:  40001:.*"$self->{path}/stock"}m,
		"$what: commit past the lease is refused");
	cmp_ok($seconds, '<', SOON + $self->{patience}, '... in time');
	return;
}

# Ends all sessions in the right order, and checks that they leave no node.
sub finish_ok
{
	my ($self) = @_;
	my ($holder, @waiters) = ($self->{holder}, @{ $self->{waiters} });

	is($self->{writer}->query('COMMIT'), '', '... the writer can commit');
	is( $self->{writer}
		  ->query("SELECT n FROM stock WHERE path = '$self->{path}'"),
		++$self->{commits},
		'... and no refused change is committed');
	my @names = sort { substr($a, -10) <=> substr($b, -10) }
	  keys %{ $self->{owners}{line} };

	my $is_shared = (server_mode() || '') eq 'gate';

	while (1)
	{
		# One node can serve several backends until its hand-over time is over.
		my $name = shift @names;
		is( $holder->query(
				'SELECT node FROM zk_locks WHERE pid = pg_backend_pid()'),
			$name,
			'... the lock is held by the same node')
		  if !$is_shared || $holder == $self->{holder};
		is($holder->query("SELECT zk_lock_release('$self->{path}/line')"),
			't', '... and can be released');
		$holder = shift @waiters or last;
		is($holder->result, 't', '... the next waiter has it');
		is(scalar(grep { $_->is_done } @waiters), 0, '... and no other session');
	}
	wait_for_queue($self->{zk}, "$self->{path}/$_") for qw(line stock);
	pass('... and no node is left');
	return;
}

# Ends the sessions.
sub close
{
	my ($self) = @_;

	$_->close for $self->holder, $self->waiters, $self->writer;
	return;
}

1;
