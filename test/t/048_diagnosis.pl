# What the error says of each server when there is no connection.

use strict;
use warnings;

use Child;
use File::Temp;
use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $dir = File::Temp->newdir(TMPDIR => 1);
my $zk = ZkServer->new(config => { maxClientCnxns => 1 })->start;
my $node = new_node('main', $zk->hosts, 'zklock.connect_timeout' => '2s');
my @children;

sub listener
{
	return IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 10,
		Proto => 'tcp') || die "cannot listen: $@";
}

# Something that answers a line with a line, as HTTP servers do.
sub start_http
{
	my $listener = listener();
	my $pid = fork() // die "fork: $!";

	if ($pid == 0)
	{
		my $select = IO::Select->new($listener);
		while (1)
		{
			for my $socket ($select->can_read)
			{
				if ($socket == $listener)
				{
					$select->add($listener->accept);
					next;
				}
				my $open = sysread($socket, my $line, 1000);
				next if $open && $line !~ /\r\n/;
				syswrite($socket, "HTTP/1.1 400 Bad Request\r\n\r\n") if $open;
				$select->remove($socket);
				close($socket);
			}
		}
	}
	push @children, $pid;
	return '127.0.0.1:' . $listener->sockport;
}

sub start_tls
{
	my $port = ZkServer::free_port();

	Child->run("$dir/log", 60, qw(openssl req -x509 -newkey rsa:2048 -nodes),
		'-subj', '/CN=localhost', '-keyout', "$dir/key", '-out', "$dir/cert");
	my $child =
	  Child->start("$dir/log", qw(openssl s_server -quiet -accept),
		"127.0.0.1:$port", '-key', "$dir/key", '-cert', "$dir/cert");
	wait_until('TLS is spoken',
		sub { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") });
	return ("127.0.0.1:$port", $child);
}

# A member of an ensemble whose others are not there
my $lonely = ZkServer->new(
	id => 1,
	config => {
		initLimit => 10,
		syncLimit => 5,
		map {
			("server.$_" => join(':',
					'127.0.0.99', map { ZkServer::free_port() } (1, 2)))
		} (1 .. 3)
	})->launch;
wait_until('it answers',
	sub { $lonely->four_letter('srvr') =~ /not currently serving/ });

# The one connection that it allows is taken, until this session ends.
my $holder = ZkTest->new(
	$node,
	'zklock.session' => 'backend',
	'zklock.connect_timeout' => '20s');
is($holder->query(q(SELECT zk_lock_acquire('/one'))), 't', 'a connection');

my $silent = listener();
my ($tls, $tls_server) = start_tls();
my %says = (
	'127.0.0.1:' . ZkServer::free_port() =>
	  'cannot be connected to: Connection refused',
	'127.0.0.1:' . $silent->sockport => 'lets us connect, but does not answer',
	'no-such-host.invalid:2181' => 'has a name that cannot be resolved: [^\n]+',
	start_http() => 'is not a ZooKeeper',
	$tls => 'speaks TLS on this port: zklock needs a tunnel to it',
	$zk->hosts =>
	  'closes the connection without an answer: [^\n]*\(maxClientCnxns\)',
	$lonely->hosts => 'is a ZooKeeper that is not serving: it has no quorum');
my @hosts = sort keys %says;

# What is told of a server
sub line_of
{
	my ($host) = @_;

	return qr/^(?:DETAIL:  )?\Q$host\E $says{$host}\.$/m;
}

my ($its_node, %settings) = with_settings(
	$node,
	'zklock.hosts' => join(',', @hosts),
	'zklock.connect_timeout' => '2s');
my $session = ZkTest->new($its_node, %settings);

for my $timeout ("'0'", "'600ms'", 'NULL')
{
	my $answer;

	# Each server has a moment to answer in. On a busy machine that may be too
	# short for one, but not again and again.
	eval {
		wait_until(
			'each of them has answered',
			sub {
				$answer =
				  $session->query("SELECT zk_lock_acquire('/why', $timeout)");
				return !grep { $answer !~ line_of($_) } @hosts;
			},
			30);
	};
	like($answer, qr/^ERROR:  08001:/, "no server will do, timeout $timeout");
	like($answer, line_of($_), "... $_") for @hosts;
	like($answer, qr/^HINT:  Check zklock\.hosts/m, '... with a hint');
}

# With one that is good, a misspelt one shows in the log.
$holder->close;
$its_node->safe_psql('postgres',
	"ALTER SYSTEM SET zklock.hosts = 'no-such-host.invalid:2181,${\ $zk->hosts}'");
$session->query('RESET zklock.hosts');
$its_node->reload;
wait_until('the connection is free',
	sub {
		$session->query(q(SELECT zk_lock_acquire('/why', '2s'))) eq 't';
	});
like(
	slurp_file($its_node->logfile),
	qr/LOG:  [^\n]*host name "no-such-host\.invalid" cannot be resolved/,
	'a name that cannot be resolved is logged when others can');

# If no name can be resolved, each is named.
my @names = map { "no-such-host$_.invalid:2181" } (1, 2);
my $lost = ZkTest->new(with_settings($node, 'zklock.hosts' => join(',', @names)));
my $answer = $lost->query(q(SELECT zk_lock_acquire('/why')));
like($answer,
	qr/^ERROR:  08001:[^\n]*\nDETAIL:  None of the host names could be resolved\.$/m,
	'no name can be resolved');
like($answer, qr/^\Q$_\E has a name that [^\n]+\.$/m, "... $_") for @names;
$lost->close;

# Nobody has told where ZooKeeper is.
$session->close;
$session = ZkTest->new($node);
$session->query(q(LOAD 'zklock'; SET zklock.hosts = '127.0.0.1:2181'));
SKIP:
{
	skip 'there is a ZooKeeper at the default port', 1
	  if IO::Socket::INET->new(PeerAddr => '127.0.0.1:2181');
	like($session->query(q(SELECT zk_lock_acquire('/why', '100ms'))),
		qr/^HINT: .*LOAD 'zklock'; ALTER SYSTEM SET zklock\.hosts = /m,
		'with the default setting the hint says how to set it');
}

kill('KILL', @children);
waitpid($_, 0) for @children;
$tls_server->stop('KILL');

done_testing();
