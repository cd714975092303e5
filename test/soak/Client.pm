# A client of the soak test that looks: calls trade() in one transaction after another, whatever
# errors it gets, and looks for the nodes of its locks before each commit.
#
#	Client::run($name, $dir, $hosts, $options);
#
# $dir has the socket of its server, which gets the client's name and the options, and $hosts is
# the connect string of ZooKeeper. The client does not return. It is a process of its own, and
# obeys lines of its standard input, with which it ends:
#
#	think		as soon as it has its locks, it waits for the next line
#	lock		meanwhile, takes one more lock, and does not wait for it
#	commit		goes on
#
# It prints, and Load.pm reads:
#
#	XID TOKEN								of a transaction that was committed
#	NAME ERROR:  SQLSTATE					(or FATAL)
#	NAME no connection
#	NAME look: there						or gone, or unknown
#	NAME gone: AT PATH NODE TOKEN NUMBER	what it saw at that time, and then sends COMMIT
#	NAME commits							after it was told to, and has sent COMMIT

package Client;

use strict;
use warnings;

use IO::Select;
use Look;
use PgServer;
use PgWire;
use POSIX ();
use Time::HiRes qw(time);
use Wait;

use constant {
	CALL => 'SELECT trade();',
	READ => 'SELECT look();',               # of one on a server with a copy
	CALLS => 500,                           # in a row before it disconnects and reconnects
	THINK => 'SELECT NULL AS thinks',       # its last statement while it waits for a line

	# The nodes as zklock knows them. What became of them is asked elsewhere.
	NODES => 'SELECT path, node, token, grant_number FROM zk_locks'
	  . ' WHERE pid = pg_backend_pid() AND granted',
};

my ($name, $look, $server);
my $input = '';

sub run
{
	($name, my ($dir, $hosts, $options)) = @_;
	srand();
	$look = Look->new($hosts);

	# Cancels what the server executes.
	$SIG{INT} = sub {
		$server->cancel if $server;
		POSIX::_exit(0);
	};
	while (1)
	{
		_connect($dir, $options);
		for (1 .. CALLS)
		{
			_trade();
			last if !$server;
		}
		$server->close if $server;
	}
}

# At once, as all clients append to one file
sub _say
{
	syswrite(STDOUT, join(' ', @_) . "\n");
	return;
}

# Returns the next line of the standard input; undef if there is none within $seconds. Ends the
# process with the input.
sub _order
{
	my ($seconds) = @_;

	while ($input !~ /\n/)
	{
		return if !IO::Select->new(\*STDIN)->can_read($seconds);
		sysread(STDIN, $input, 4096, length $input) or POSIX::_exit(0);
	}
	$input =~ s/^(.*)\n//;
	return $1;
}

sub _connect
{
	my ($dir, $options) = @_;

	wait_until(
		'the server accepts a connection',
		sub {
			undef $server;
			return $server if eval {
				$server = PgWire->new(
					Client::Server->new($dir),
					application_name => $name,
					options => $options);
			};
			_order(0);
			_say($name, 'no connection');
			return;
		});
	return;
}

# Sends statements at once.
sub _post
{
	my (@statements) = @_;

	$server->send(map { PgWire::simple($_) } @statements);
	return;
}

# Returns the answers to so many statements. After an error, or without a connection, it returns
# nothing.
sub _answers
{
	my ($n) = @_;
	my @answers = $server->answers($n);
	my ($error) = grep { /^(?:ERROR|FATAL|PANIC) / } map { split(/\n/) } @answers;

	_say($name, "$1:  $2") if ($error // '') =~ /^(\S+) (\S+)/;
	undef $server if $answers[-1] =~ /^closed\z/m;
	return $error || !$server ? () : @answers;
}

# Begins a transaction, and returns what identifies it, and its locks. It returns nothing after an
# error.
sub _begin_trade
{
	_post('BEGIN', CALL, NODES);
	my ($begun, $result, $rows) = _answers(3) or return;
	my @locks;

	for (grep { /\|/ } split(/\n/, $rows))
	{
		my %lock;

		@lock{qw(path node token number)} = split(/\|/);
		push @locks, \%lock;
	}
	return ($result =~ s/\n.*//sr, @locks);
}

# Waits, with the locks, until it is told to commit. Returns the number of statements that it
# has sent and that have no answer yet, or nothing after an error.
sub _think
{
	_post(THINK);
	_answers(1) or return;
	for (my $statements = 0;; $statements++)
	{
		return $statements if _order() eq 'commit';
		_post("SELECT zk_lock_guard('/soak/more_$name', '10s')");
	}
}

sub _trade
{
	my $told = _order(0);
	my ($result, @locks) = _begin_trade();
	my $statements = 0;

	$statements = _think() if $result && $told;
	if (!$result || !defined $statements)
	{
		# It is still told to.
		$input = "$told\n$input" if $told;
		_post('ROLLBACK') if $server;
		_answers(1) if $server;
		return;
	}

	# A lock that zklock knows to be lost has no node.
	my ($what, @gone) = (grep { $_->{node} eq '' } @locks) ? 'unknown' : $look->at(@locks);
	my $at = sprintf('%.6f', time());

	_say($name, 'look:', $what);
	_say($name, 'gone:', $at, @$_{qw(path node token number)}) for @gone;
	_post('COMMIT');
	_say($name, 'commits') if $told;
	my @tags = _answers($statements + 1);

	_say($result) if @tags && $tags[-1] eq 'COMMIT';
	return;
}

# Where its server is, as PgWire asks for it
package Client::Server;

sub new
{
	my ($class, $dir) = @_;

	return bless { dir => $dir }, $class;
}

sub host
{
	my ($self) = @_;

	return $self->{dir};
}

sub port
{
	return PgServer::PORT;
}

1;
