# TLS between PostgreSQL and ZooKeeper, with a real stunnel on both sides or
# with ZooKeeper's own TLS, configured as docs/security.md describes: locks
# work, also after the tunnel is restarted, and other certificates are refused.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use Child;
use FindBin;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

plan skip_all => 'there is no stunnel'
  if !grep { -x "$_/stunnel" } split(/:/, $ENV{PATH});

my $tmp = PostgreSQL::Test::Utils::tempdir_short();
my $page = slurp_file("$FindBin::RealBin/../../docs/security.md");
my $zk = ZkServer->new->start;

# Certificates of this authority, and of another one

sub openssl
{
	my (@args) = @_;

	system_or_bail('openssl', @args);
	return;
}

sub make_authority
{
	my ($name) = @_;

	openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', 2,
		'-subj', "/CN=$name", '-keyout', "$tmp/$name.key", '-out', "$tmp/$name.pem");
	return;
}

sub make_certificate
{
	my ($name, $ca, $host) = @_;

	openssl('req', '-newkey', 'rsa:2048', '-nodes', '-subj', "/CN=$host",
		'-keyout', "$tmp/$name.key", '-out', "$tmp/$name.csr");
	append_to_file("$tmp/$name.ext", "subjectAltName=DNS:$host\n");
	openssl('x509', '-req', '-in', "$tmp/$name.csr", '-CA', "$tmp/$ca.pem",
		'-CAkey', "$tmp/$ca.key", '-CAcreateserial', '-days', 2,
		'-extfile', "$tmp/$name.ext", '-out', "$tmp/$name.crt");
	append_to_file("$tmp/$name.pem",
		slurp_file("$tmp/$name.key") . slurp_file("$tmp/$name.crt"));
	chmod(0600, "$tmp/$name.pem") or die "$tmp/$name.pem: $!\n";
	return "$tmp/$name.pem";
}

make_authority($_) for qw(ca another_ca);
my ($host) = $page =~ /^checkHost = (\S+)$/m;
my $db_pem = make_certificate('db1', 'ca', 'db1.example.com');
my $zk_pem = make_certificate('zk1', 'ca', $host);
my $false_zk_pem = make_certificate('false_zk', 'another_ca', $host);
my $other_zk_pem = make_certificate('other_zk', 'ca', 'zk2.example.com');

# Returns a configuration of the documentation, with other values for some
# names, and without the names that have no value.
sub from_page
{
	my ($title, %value) = @_;
	my ($text) = $page =~ /^```ini\n; \Q$title\E\n(.*?)^```$/ms;

	for my $name (keys %value)
	{
		my $line = defined $value{$name} ? "$name=$value{$name}\n" : '';

		$text =~ s/^\Q$name\E ?= ?.*\n/$line/m or die "$name is not in: $text\n";
	}
	return $text;
}

# The configuration of stunnel on one side
sub configuration
{
	my ($side, %value) = @_;

	return "foreground = yes\npid =\n"
	  . from_page("beside $side", CAfile => "$tmp/ca.pem", %value);
}

my $n = 0;

# Starts a tunnel that listens on $port.
sub tunnel
{
	my ($port, $configuration) = @_;
	my $file = "$tmp/stunnel" . ++$n;

	append_to_file("$file.conf", $configuration);
	my $child = Child->start("$file.log", 'stunnel', "$file.conf");
	wait_until('stunnel listens',
		sub { $child->check; IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") });
	return $child;
}

my ($from, $to) = map { ZkServer::free_port() } 1 .. 2;
my %at_zk = (accept => "127.0.0.1:$to", connect => $zk->hosts, cert => $zk_pem);
my %at_db = (accept => "127.0.0.1:$from", connect => "127.0.0.1:$to", cert => $db_pem);

my $at_zk = tunnel($to, configuration('ZooKeeper', %at_zk));
my $at_db = tunnel($from, configuration('PostgreSQL', %at_db));

my @nodes = map { new_node("node$_", "127.0.0.1:$from", OWN_SESSION) } 1 .. 2;
my $holder = ZkTest->new($nodes[0]);
my $waiter = ZkTest->new($nodes[1]);
is($holder->query(q(SELECT zk_lock_acquire('/tls'))), 't', 'lock is acquired through TLS');
$waiter->start(q(SELECT zk_lock_acquire('/tls')));
wait_for_queue($zk, '/tls', $holder, $waiter);
pass('... and another server waits for it');

my $id = $holder->query('SELECT session_id FROM zk_session()');
for my $end (\$at_db, \$at_zk)
{
	my $which = $end == \$at_db ? 'PostgreSQL' : 'ZooKeeper';

	$$end->stop('TERM');
	$$end = tunnel($end == \$at_db ? ($from, configuration('PostgreSQL', %at_db))
		: ($to, configuration('ZooKeeper', %at_zk)));
	wait_until('the session is connected again',
		sub { $holder->query('SELECT state FROM zk_session()') eq 'connected' });
	is($holder->query('SELECT session_id FROM zk_session()'),
		$id, "session is the same after a restart of the tunnel beside $which");
	wait_for_queue($zk, '/tls', $holder, $waiter);
}
is($holder->query(q(SELECT zk_lock_release('/tls'))), 't', '... and the lock is held');
is($waiter->result, 't', '... and the waiter keeps its place');
$_->close for $holder, $waiter;

# Tries to acquire a lock through tunnels with other values, within $time.
sub try
{
	my ($time, $at_db_values, $at_zk_values) = @_;
	my $session;
	my $answer;

	$_->stop('TERM') for $at_db, $at_zk;
	$at_zk = tunnel($to, configuration('ZooKeeper', %at_zk, %$at_zk_values));
	$at_db = tunnel($from, configuration('PostgreSQL', %at_db, %$at_db_values));
	$session = ZkTest->new($nodes[0], 'zklock.connect_timeout' => $time);
	$answer = $session->query(q(SELECT zk_lock_acquire('/tls')));
	$session->close;
	return $answer;
}

my $refused = qr/^ERROR:  08001:/m;

is(try('1min', {}, {}), 't', 'lock is acquired with the right certificates');
like(try('2s', { cert => undef }, {}), $refused,
	"PostgreSQL's side without a certificate is refused");
like(try('2s', { cert => $false_zk_pem }, {}), $refused,
	'... and one with a certificate of another authority');
like(try('2s', {}, { cert => $false_zk_pem }), $refused,
	"ZooKeeper's side with a certificate of another authority is refused");
like(try('2s', {}, { cert => $other_zk_pem }), $refused,
	'... and one with a certificate of another host');
is(try('1min', {}, {}), 't', '... and the right certificates work again');

my $session = ZkTest->new(
	$nodes[0],
	'zklock.hosts' => "127.0.0.1:$to",
	'zklock.connect_timeout' => '4s');
like($session->query(q(SELECT zk_lock_acquire('/tls'))), qr/^ERROR:  08001:.*TLS/ms,
	'error says that the port expects TLS');
$session->close;

# ZooKeeper's own TLS, if the libraries are installed

SKIP:
{
	my @netty = grep { -e } '/usr/share/java/netty-codec.jar';

	skip 'there is no Netty', 1 if !@netty && !$ENV{ZOOKEEPER_CLASSPATH};

	local $ZkServer::class_path = join(':', $ZkServer::class_path, @netty);
	my $secure_port = ZkServer::free_port();
	my %config = map { split(/=/, $_, 2) } split(
		/\n/,
		from_page(
			'zoo.cfg',
			'secureClientPort' => $secure_port,
			'ssl.keyStore.location' => $zk_pem,
			'ssl.trustStore.location' => "$tmp/ca.pem"));
	my $its_zk = ZkServer->new(
		config => { %config, secureClientPortAddress => '127.0.0.1' })->start;
	my $tunnel_to_it = sub {
		my ($cert) = @_;

		$at_db->stop('TERM');
		$at_db = tunnel($from, configuration('PostgreSQL', %at_db,
			connect => "127.0.0.1:$secure_port", cert => $cert));
		return;
	};
	my $lock = sub {
		my $session = ZkTest->new($nodes[0]);
		my $answer = $session->query(q(SELECT zk_lock_acquire('/its_own')));

		$session->close;
		return $answer;
	};

	# The first TLS connection takes Java some time.
	$tunnel_to_it->($db_pem);
	ok(wait_until('ZooKeeper accepts TLS itself', sub { $lock->() eq 't' }),
		"lock is acquired through ZooKeeper's own TLS");
	is(join(' ', $its_zk->children('/')), 'its_own zookeeper', '... at that server');
	$tunnel_to_it->(undef);
	like($lock->(), $refused, '... and refused without a certificate');
}

END
{
	my $status = $?;

	Child->stop_all;
	$? = $status;
}

done_testing();
