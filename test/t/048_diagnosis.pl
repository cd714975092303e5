# Errors describe the state of each server when there is no connection.

use strict;
use warnings;

use Child;
use File::Temp;
use IO::Select;
use IO::Socket::INET;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Template;
use Test::More;
use ZkServer;
use ZkTest;

my $dir = File::Temp->newdir(TMPDIR => 1);
my $zk = ZkServer->new(config => { maxClientCnxns => 1 })->start;
my $node = new_node('main', $zk->hosts, 'zklock.connect_timeout' => '2s');
my @children;

# Nobody accepts its connections, and each attempt of a test leaves some in its
# queue, so the queue must be long.
sub listener
{
	return IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 1024,
		Proto => 'tcp') || die "cannot listen: $@";
}

# Starts a process that answers each line with a line, like an HTTP server.
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
	wait_until('the TLS server accepts connections',
		sub { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") });
	return ("127.0.0.1:$port", $child);
}

# A member of an ensemble whose other members do not exist
my $member = ZkServer->new(
	id => 1,
	config => {
		initLimit => 10,
		syncLimit => 5,
		map {
			("server.$_" => join(':',
					'127.0.0.99', map { ZkServer::free_port() } (1, 2)))
		} (1 .. 3)
	})->launch;
wait_until('the member answers',
	sub { $member->four_letter('srvr') =~ /not currently serving/ });

# The server allows one connection, which this session uses until it ends.
my $holder = ZkTest->new(
	$node,
	'zklock.session_mode' => 'backend',
	'zklock.connect_timeout' => '20s');
is($holder->query(q(SELECT zk_lock_acquire('/one'))), 't', 'the only connection is used');

# A PostgreSQL server that also speaks TLS
my $postgres = PostgreSQL::Test::Cluster->new('postgres');
init_node($postgres);
Child->run("$dir/log", 60, qw(openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost),
	'-keyout', $postgres->data_dir . '/server.key', '-out', $postgres->data_dir . '/server.crt');
$postgres->append_conf('postgresql.conf', q(
	listen_addresses = '127.0.0.1'
	ssl = on));
$postgres->start;

my $silent = listener();
my ($tls, $tls_server) = start_tls();
my %says = (
	'127.0.0.1:' . ZkServer::free_port() =>
	  'cannot be connected to: Connection refused',
	'127.0.0.1:' . $silent->sockport => 'lets us connect, but does not answer',
	'no-such-host.invalid:2181' => 'has a name that cannot be resolved: [^\n]+',
	start_http() => 'is not a ZooKeeper',
	'127.0.0.1:' . $postgres->port =>
	  "speaks PostgreSQL's protocol on this port: it is not a ZooKeeper",
	$tls => 'speaks TLS on this port: zklock needs a tunnel to it',
	$zk->hosts =>
	  'closes the connection without an answer: [^\n]*\(maxClientCnxns\)',
	$member->hosts => 'is a ZooKeeper that is not serving: it has no quorum');
my @hosts = sort keys %says;

# The line that describes a server
sub line_about
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

	# Each server has a moment to answer. On a busy machine that can be too
	# short for one of them, but not again and again.
	eval {
		wait_until(
			'the error describes each server',
			sub {
				$answer =
				  $session->query("SELECT zk_lock_acquire('/why', $timeout)");
				return !grep { $answer !~ line_about($_) } @hosts;
			},
			30);
	};
	like($answer, qr/^ERROR:  08001:/, "error if no server can be used, timeout $timeout");
	like($answer, line_about($_), "... $_") for @hosts;
	like($answer, qr/^HINT:  Check zklock\.hosts/m, '... with a hint');
}

# If another server works, a misspelt name is logged.
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
	'unresolvable name is logged while another server works');

# If no name can be resolved, the error describes each.
my @names = map { "no-such-host$_.invalid:2181" } (1, 2);
my $lost = ZkTest->new(with_settings($node, 'zklock.hosts' => join(',', @names)));
my $answer = $lost->query(q(SELECT zk_lock_acquire('/why')));
like($answer,
	qr/^ERROR:  08001:[^\n]*\nDETAIL:  None of the host names could be resolved\.$/m,
	'error if no name can be resolved');
like($answer, qr/^\Q$_\E has a name that [^\n]+\.$/m, "... $_") for @names;
$lost->close;

# Whoever gives up again and again has few sockets and threads: two examinations, with a
# socket for each server, and nine sessions that are closed or begun, with three threads
# and four descriptors each.
my @silent = map { listener() } 1 .. 16;
my $hasty = ZkTest->new(
	$node, OWN_SESSION,
	'zklock.hosts' => join(',', map { '127.0.0.1:' . $_->sockport } @silent),
	'zklock.connect_timeout' => '30ms');
my $most = 0;

sub resources
{
	return map { scalar(my @all = glob("/proc/${\ $hasty->pid}/$_/*")) } qw(fd task);
}

# The other descriptors and threads of a backend: the first ones are open now.
$hasty->query('SELECT 1');
my ($fds) = resources();

for my $given_up ('20ms', 0)
{
	$hasty->query("SET statement_timeout = '$given_up'");
	for (1 .. ($given_up ? 60 : 10))
	{
		$hasty->query(q(SELECT zk_lock_acquire('/why')));
		my ($now, $threads) = resources();

		$most = max($most, $now - $fds, 2 * $threads);
	}
}
cmp_ok($most, '<=', 2 * @silent + 9 * 4, 'first connects that are given up leave few sockets and threads');
$hasty->close;

# zklock.hosts has its default value.
$session->close;
$session = ZkTest->new($node);
$session->query(q(LOAD 'zklock'; SET zklock.hosts = '127.0.0.1:2181'));
SKIP:
{
	skip 'a ZooKeeper listens on the default port', 1
	  if IO::Socket::INET->new(PeerAddr => '127.0.0.1:2181');
	like($session->query(q(SELECT zk_lock_acquire('/why', '100ms'))),
		qr/^HINT: .*LOAD 'zklock'; ALTER SYSTEM SET zklock\.hosts = /m,
		'hint explains zklock.hosts if it has its default value');
}

kill('KILL', @children);
waitpid($_, 0) for @children;
$tls_server->stop('KILL');

done_testing();
