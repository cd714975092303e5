# Looks in ZooKeeper for the nodes of locks, independently of zklock.
#
#	my $look = Look->new($hosts);
#	my ($what, @gone) = $look->at({ path => '/a', node => 'x', token => 1 }, ...);
#
# It says that a node is gone only if that is certain: it asks after a sync, so the server
# knows what is committed, and a server that has not reached the node's creation yet, because it
# follows a leader that was deposed, shows that by the number of its last transaction. Errors and
# silence say nothing.

package Look;

use strict;
use warnings;

use Time::HiRes qw(time);
use Wait;
use ZkClient;

use constant LIMIT => 0.3;    # s

sub new
{
	my ($class, $hosts) = @_;
	my @hosts = split(/,/, $hosts);

	return bless { hosts => \@hosts, next => int(rand(@hosts)) }, $class;
}

# Returns 'there', 'gone' or 'unknown', and those locks whose nodes are gone. It takes LIMIT at
# most.
sub at
{
	my ($self, @locks) = @_;
	my @states = eval { $self->_states(@locks) };

	# The next look asks another server.
	delete $self->{client} if !@states;
	my @gone = @locks[ grep { $states[$_] eq 'gone' } 0 .. $#states ];

	return ('gone', @gone) if @gone;
	return @states && !(grep { $_ ne 'there' } @states) ? 'there' : 'unknown';
}

sub _states
{
	my ($self, @locks) = @_;
	my $deadline = time() + LIMIT;
	my $reply = sub {
		local $Wait::timeout = $deadline - time();
		return $self->{client}->recv;
	};

	if (!$self->{client})
	{
		local $Wait::timeout = LIMIT;
		$self->{client} = ZkClient->new($self->{hosts}[ $self->{next}++ % @{ $self->{hosts} } ]);
	}
	for (@locks)
	{
		$self->{client}->send(sync => $_->{path});
		$self->{client}->send(exists => "$_->{path}/$_->{node}");
	}
	return map {
		my ($synced, $found) = ($reply->(), $reply->());

		$synced->{err} ? 'unknown' : _state($_, $found)
	} @locks;
}

# A node's token is the number of the transaction that created it.
sub _state
{
	my ($lock, $reply) = @_;

	return ZkClient::unpack_stat($reply->{results})->{czxid} == $lock->{token} ? 'there' : 'gone'
	  if !$reply->{err};
	return $reply->{err} == ZkClient::NO_NODE && $reply->{zxid} >= $lock->{token}
	  ? 'gone'
	  : 'unknown';
}

1;
