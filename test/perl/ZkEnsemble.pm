# A throwaway ensemble of ZooKeeper servers, each of them a ZkServer.
#
#	my $zk = ZkEnsemble->new(size => 3, tick_time => 200)->start;
#	$zk->leader->kill9;
#	$zk->wait_for_quorum;
#
# A member can be killed, paused and so on by itself. To have it back without
# waiting until it serves, which without the others it never does, launch it.

package ZkEnsemble;

use strict;
use warnings;

use Wait;
use ZkServer;

# Where the members listen to each other. Nobody else uses this address.
use constant PEERS => '127.0.0.99';

# Options: size, and those of ZkServer.
sub new
{
	my ($class, %opt) = @_;
	my @ids = (1 .. ($opt{size} // 3));

	# The limits are in ticks: who takes longer to join, or is silent for longer,
	# is given up. Without the delay (in ms) a log that is not forced to disk is
	# so quick that followers confirm what they write before they confirm a new
	# leader, whom that makes start all over.
	my %config = (
		initLimit => 10,
		syncLimit => 5,
		flushDelay => 6,
		%{ $opt{config} // {} });
	for (@ids)
	{
		$config{"server.$_"} = join(':',
			PEERS, map { ZkServer::free_port() } qw(quorum election));
	}
	return bless {
		servers => [
			map { ZkServer->new(%opt, id => $_, config => \%config) } @ids
		]
	}, $class;
}

# Starts all members, and waits until enough of them serve.
sub start
{
	my ($self) = @_;

	$_->launch for $self->servers;
	$self->wait_for_quorum;
	return $self;
}

sub stop
{
	my ($self) = @_;

	$_->stop for $self->servers;
	return;
}

# In the order of the connect string
sub servers
{
	my ($self) = @_;

	return @{ $self->{servers} };
}

# The connect string that names all members
sub hosts
{
	my ($self) = @_;

	return join(',', map { $_->hosts } $self->servers);
}

# The member that leads at present, if any
sub leader
{
	my ($self) = @_;

	return ($self->_serving('leader'))[0];
}

# Those that follow at present
sub followers
{
	my ($self) = @_;

	return $self->_serving('follower');
}

# Waits until a majority serves.
sub wait_for_quorum
{
	my ($self) = @_;

	$self->_wait_for_followers(int($self->servers / 2));
	return;
}

# Waits until all members serve.
sub wait_for_all
{
	my ($self) = @_;

	$self->_wait_for_followers($self->servers - 1);
	return;
}

# A look into the tree, or a change of it, from outside; see ZkServer. Waits
# until there is a member to ask. That one knows of all that was done before, or
# it would not know of the asker's session.
for my $verb (qw(children get exists create delete owners))
{
	no strict 'refs';
	*$verb = sub {
		my ($self, @args) = @_;
		my $server =
		  wait_until('a server serves', sub { ($self->_serving)[0] });

		return $server->$verb(@args);
	};
}

# The members that serve now, only those of a mode if one is given
sub _serving
{
	my ($self, $mode) = @_;

	# One that has just been launched may not answer.
	return
	  grep { $_->is_up && $_->mode(1) =~ ($mode // qr/./) } $self->servers;
}

# Waits until there is a leader whom at least so many follow.
sub _wait_for_followers
{
	my ($self, $number) = @_;

	wait_until("$number servers follow a leader",
		sub { $self->leader && $self->followers >= $number });
	return;
}

1;
