# A temporary ensemble of ZooKeeper servers, each of them a ZkServer.
#
#	my $zk = ZkEnsemble->new(size => 3, tick_time => 200)->start;
#	$zk->leader->kill9;
#	$zk->wait_for_quorum;
#
# A member can be killed, paused and so on by itself. A single member does not
# serve without the others; launch starts it without waiting until it does.

package ZkEnsemble;

use strict;
use warnings;

use Wait;
use ZkServer;

# The address at which the members connect to each other. Clients do not use
# it.
use constant PEERS => '127.0.0.99';

# The address at which a member, by its number (1, 2, ...), connects to another one that
# leads it, or to tell its vote, with the option own_links
sub link_address
{
	my ($from, $to) = @_;

	return "127.9.$from.$to";
}

# Options: size, addresses (of the members), own_links (each member knows each other one by
# an address that only these two use in that direction), and those of ZkServer.
sub new
{
	my ($class, %opt) = @_;
	my @ids = (1 .. ($opt{size} // 3));

	# The limits are in ticks: a member that takes longer to join, or is silent
	# for longer, is given up. The delay (in ms) slows writes to the log, which
	# is not forced to disk. Without it, followers would confirm their writes
	# before they confirm a new leader, which makes that leader start again.
	my %config = (
		initLimit => 100,
		syncLimit => 5,
		flushDelay => 6,
		%{ $opt{config} // {} });
	$config{quorumListenOnAllIPs} = 'true' if $opt{own_links};
	my %ports = map { $_ => join(':', ZkServer::free_port(), ZkServer::free_port()) } @ids;

	# They share the configuration, so that a test can add a server to all of them.
	$config{"server.$_"} = join(':', PEERS, $ports{$_}) for @ids;
	my $config_of = sub {
		my ($id) = @_;

		return \%config if !$opt{own_links};
		return { %config, map { ("server.$_" => join(':', link_address($id, $_), $ports{$_})) } @ids };
	};

	return bless {
		servers => [
			map {
				ZkServer->new(%opt,
					id => $_,
					config => $config_of->($_),
					address => $opt{addresses}[ $_ - 1 ])
			} @ids
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

# Stops all members, and starts them again with these options of the JVM, without waiting
# until they serve.
sub relaunch
{
	my ($self, @options) = @_;

	$self->stop;
	$_->launch(@options) for $self->servers;
	return;
}

# Returns the end of a session, as in ended_sessions() of a ZkServer; undef if no member
# has it in its log.
sub end_of
{
	my ($self, $id) = @_;

	return (grep { defined } map { $_->ended_sessions->{$id} } $self->servers)[0];
}

# Returns a member's number (1, 2, ...).
sub number_of
{
	my ($self, $server) = @_;
	my @servers = $self->servers;

	return 1 + (grep { $servers[$_] == $server } 0 .. $#servers)[0];
}

# Returns the members in the order of the connect string.
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

# Returns the current leader, if any.
sub leader
{
	my ($self) = @_;

	return ($self->_serving('leader'))[0];
}

# Returns the current followers.
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

# These read or change the tree from outside; see ZkServer. They wait until a
# member serves. The member has all earlier changes, because it has accepted
# the new session.
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

# Returns the members that serve now, only those of a mode if one is given.
sub _serving
{
	my ($self, $mode) = @_;

	# A server that has just been launched may not answer.
	return
	  grep { $_->is_up && $_->mode(1) =~ ($mode // qr/./) } $self->servers;
}

# Waits until there is a leader with at least so many followers.
sub _wait_for_followers
{
	my ($self, $number) = @_;

	wait_until("$number servers follow a leader",
		sub { $self->leader && $self->followers >= $number });
	return;
}

1;
