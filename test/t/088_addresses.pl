# ZooKeeper's servers get other addresses, as pods of Kubernetes do when they are restarted:
# holders and waiters keep their locks and their places. The names are those of the system's
# resolver.
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use ZkNames;

BEGIN { ZkNames::enter() }

use List::Util qw(max);
use POSIX qw(ceil);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkEnsemble;
use ZkProxy;
use ZkServer;
use ZkTest;

# Limit for "at once"; generous, because the machine may be busy, but less than a resolver
# takes that does not answer
use constant SOON => ZkNames::PATIENCE / 3;

# The longest pause between two attempts of all servers, and between two lookups
use constant PACE => 1;

use constant TURNS => 6;

# Of a backend that has given up many first connects
use constant MOST_THREADS => 20;

my $began = time();
my $zk = ZkEnsemble->new(
	tick_time => 200,
	port => ZkServer::free_port(),
	addresses => [ map { "127.0.1.$_" } 0 .. 2 ])->start;
my @servers = $zk->servers;
my $port = $servers[0]->port;

# A client waits two thirds of the timeout for an address that drops all packets.
my $timeout = max(20, ceil(3 * (time() - $began)));
my %settings = ('zklock.session_timeout' => $timeout . 's', 'zklock.connect_timeout' => '30s');

# Each server has a name, and all have another one together, which a session can use as well.
sub publish
{
	my (@published) = @_;
	my %names = map { ("zk-$_" => $servers[$_]->address) } @published;

	ZkNames::set(%names, zk => [ values %names ]);
	return;
}

publish(0 .. 2);
my %hosts = (
	'names of servers' => join(',', map { "zk-$_:$port" } 0 .. 2) . '/app',
	'one name' => "zk:$port/app");
$zk->wait_for_all;
$zk->create('/app', '');

my %node =
  map { $_ => new_node(/one/ ? 'one' : 'each', $hosts{$_}, %settings) } sort keys %hosts;
my %session;

for my $how (sort keys %hosts)
{
	my $lock = $how =~ s/ .*//r;

	%{ $session{$how} } = map { $_ => ZkTest->new($node{$how}) } qw(holder waiter idle free);
	my %its = %{ $session{$how} };

	is($its{holder}->query("SELECT zk_lock_acquire('/$lock')"), 't', "$how: a session holds a lock");
	$its{waiter}->start("SELECT zk_lock_acquire('/$lock')");
	wait_for_queue($zk, "/app/$lock", @its{qw(holder waiter)});
	is($its{idle}->query("SELECT zk_lock_acquire('/$lock/idle')"), 't', '... another is idle');
	is($its{free}->query("SELECT zk_lock_acquire('/$lock/free'), zk_lock_release_all()"),
		't|1', '... another has released its lock');
}

my %owners = map { $_ => $zk->owners("/app/$_") } qw(names one);

# Restarts a server at another address. Meanwhile its name is unknown. Its former address
# refuses connections, or drops all packets.
sub move
{
	my ($number, $address, $drop) = @_;
	my $server = $servers[$number];
	my $former = $server->address;

	publish(grep { $_ != $number } 0 .. 2);
	$server->stop;
	ZkNet::cut($former, 'to') if $drop;
	$zk->wait_for_quorum;
	$server->move($address)->launch;
	$zk->wait_for_all;
	publish(0 .. 2);
	return;
}

# A commit would wait for a confirmation of the lock that the session holds.
sub is_connected
{
	my ($session) = @_;

	return $session->query('BEGIN; SELECT state FROM zk_session(); ROLLBACK') eq 'connected';
}

# All three move, one after the other, and once more: at the end, no address is left that
# the sessions were begun with.
for my $round (2, 3)
{
	my $how = $round == 2 ? 'refuse connections' : 'drop all packets';

	for my $number (0 .. 2)
	{
		my $seconds;

		move($number, "127.0.$round.$number", $round == 3);
		for my $hosts (sort keys %hosts)
		{
			my $free = $session{$hosts}{free};

			$seconds = seconds_of(
				sub {
					is( $free->query("SELECT zk_lock_acquire('/new/$round/$number'), zk_lock_release_all()"),
						't|1',
						"server $number has moved, and the former addresses $how: $hosts: next lock");
				});
			note(sprintf('%s: %.2f s', $hosts, $seconds));
		}
	}
	for my $hosts (sort keys %hosts)
	{
		my ($lock) = $hosts =~ /(\w+)/;
		my %its = %{ $session{$hosts} };

		wait_until("$hosts: the sessions are connected",
			sub { is_connected($its{holder}) && is_connected($its{idle}) });
		is_deeply($zk->owners("/app/$lock"), $owners{$lock},
			"all servers have moved: $hosts: holder and waiter have their nodes");
		ok(!$its{waiter}->is_done, '... the waiter waits');
		like($its{idle}->query("BEGIN; SELECT zk_lock_guard('/$lock/idle'); COMMIT"),
			qr/^\d+$/, '... an idle holder has its lock');
	}
}

for my $hosts (sort keys %hosts)
{
	my ($lock) = $hosts =~ /(\w+)/;
	my %its = %{ $session{$hosts} };

	is($its{holder}->query("SELECT zk_lock_release('/$lock')"), 't', "$hosts: the holder releases");
	is($its{waiter}->result, 't', '... and the waiter has the lock');
	like(slurp_file($node{$hosts}->logfile),
		qr/LOG:  ZooKeeper client: zklock: the names of the servers have other addresses now/,
		'... the log tells that the addresses are others');
	unlike(slurp_file($node{$hosts}->logfile), qr/08006|40001/, '... and nothing was lost');
	$_->close for values %its;
}
$_->stop for values %node;
$zk->stop;

# One server: how long after its restart the next lock takes, at another address and at the
# same one.

my $solo = ZkServer->new(address => '127.0.4.0')->start;
my $name = 'solo:' . $solo->port;
my $node = new_node('solo', $name, %settings);

ZkNames::set(solo => $solo->address);
my ($session, $holder) = map { ZkTest->new($node) } 1 .. 2;

# A session without a lock would be given up, and a new one needs the name.
$session->query(q(SELECT zk_lock_acquire('/held/too')));
$holder->query(q(SELECT zk_lock_acquire('/held')));
my $owners = $solo->owners('/held');
my %seconds;

for my $turn (1 .. TURNS)
{
	for my $where ('same', 'other')
	{
		$solo->stop;
		ZkNames::set(unrelated => '127.0.9.9') if $where eq 'other';
		wait_until('the loss is noticed', sub { !is_connected($holder) });
		$session->start(
			qq(SELECT zk_lock_acquire('/turn/$where/$turn'), zk_lock_release('/turn/$where/$turn')));
		$solo->move("127.0.4.$turn") if $where eq 'other';
		$solo->start;
		ZkNames::set(solo => $solo->address);
		push @{ $seconds{$where} }, seconds_of(
			sub {
				my $answer = $session->result;

				die "turn $turn at the $where address: $answer\n" if $answer ne 't|t';
			});
		wait_until('both are connected again',
			sub { is_connected($holder) && is_connected($session) });
	}
}
note("$_ address: ", join(' ', map { sprintf('%.2f', $_) } @{ $seconds{$_} }), ' s')
  for sort keys %seconds;
my ($median_other, $median_same) =
  map { (sort { $a <=> $b } @{ $seconds{$_} })[ TURNS / 2 ] } qw(other same);
cmp_ok($median_other, '<=', $median_same + PACE + 0.2,
	'a server at another address is found as soon as one at the same, and the pace of lookups');
is_deeply($solo->owners('/held'), $owners, '... and the lock is held all the time');

# IPv6 beside IPv4. The resolver finds only addresses of a family of which the machine has
# one.

$solo->stop;
system(qw(ip address add), $_, qw(dev lo)) == 0 or die "no address $_\n"
  for 'fd00::7/128', '10.9.9.9/32';
$solo->move('127.0.5.1');
$solo->{config}{clientPortAddress} = 'fd00::7';
$solo->launch;
ZkNames::set(solo => [ 'fd00::7', '10.9.9.8' ]);    # there is no route to the other
ok( wait_until(
		'the session is connected again',
		sub {
			$solo->{java}->check;    # it ends if it cannot use the address
			is_connected($holder)
			  && slurp_file($node->logfile) =~
			  /is back after \d+ ms, with server \Q[fd00::7]:\E\d+$/m;
		}),
	'a server is found at its IPv6 address');
delete $solo->{config}{clientPortAddress};
$solo->restart;
ZkNames::set(solo => '127.0.5.1');
wait_until('the session is connected again', sub { is_connected($holder) });
is_deeply($solo->owners('/held'), $owners, '... and the lock is held');

# A name has many addresses, most of which are no server's, as that of a service may have.

my $many = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => 'many:' . $solo->port);

ZkNames::set(solo => $solo->address, many => [ $solo->address, map { "127.0.6.$_" } 1 .. 60 ]);
is($many->query(q(SELECT zk_lock_acquire('/many'))), 't', 'a server is found among many addresses');
$owners = $solo->owners('/many');
$solo->stop;
wait_until('the loss is noticed', sub { !is_connected($many) });

my ($lost, $cpu) = (time(), cpu_seconds($many->pid));

wait_until('time has passed', sub { time() > $lost + 4 });
cmp_ok((cpu_seconds($many->pid) - $cpu) / (time() - $lost),
	'<', 1 / 4, '... which take little CPU time in an outage');
$solo->start;
wait_until('the session is connected again', sub { is_connected($many) });
is_deeply($solo->owners('/many'), $owners, '... and the server is found again');

$node->stop;

# A server behind a proxy, and a name that becomes unknown, with an address that drops all
# packets: an attempt there would take two thirds of the timeout.

my $proxy = ZkProxy->new($solo->hosts);
my %names = (proxy => '127.0.0.1', another => $solo->address);

ZkNames::set(%names, gone => '127.0.8.1');
$node = new_node('proxy', $proxy->hosts =~ s/127\.0\.0\.1/proxy/r . ',gone:2181', %settings);
($session, $holder) = map { ZkTest->new($node) } 1 .. 2;
is($holder->query(q(SELECT zk_lock_acquire('/proxy'))), 't', 'a session is connected');
$owners = $solo->owners('/proxy');
ZkNet::cut('127.0.8.1', 'to');
ZkNames::set(%names);
$proxy->refuse;
$proxy->cut;

my $attempts = $proxy->accepted;
wait_until('some attempts have failed', sub { $proxy->accepted >= $attempts + 4 });
$proxy->accept;
cmp_ok(seconds_of(sub { wait_until('the session is connected again', sub { is_connected($holder) }) }),
	'<', $timeout / 2, 'the address of a name that is unknown delays no reconnect');

# A resolver that does not answer

sub resolver_threads
{
	my ($pid) = @_;

	return grep { (eval { slurp_file($_) } // '') eq "zklock resolver\n" }
	  glob("/proc/$pid/task/*/comm");
}

my $keeper = keeper_of($holder, $node);

wait_until('the last lookup is over', sub { !resolver_threads($keeper) });
ZkNet::heal('127.0.8.1', 'to');
ZkNames::hang();
ZkNames::set();
$proxy->refuse;
$proxy->cut;
wait_until('a thread resolves the names', sub { resolver_threads($keeper) == 1 });
my $most = 0;

# It asks once, while the client makes many attempts.
$attempts = $proxy->accepted;
wait_until(
	'many attempts have failed',
	sub {
		$most = max($most, scalar(resolver_threads($keeper)));
		return $proxy->accepted >= $attempts + 6;
	});
is($most, 1, 'a resolver does not answer: one thread waits for it');

$session->start(q(SELECT zk_lock_acquire('/never')));
$session->wait_for_event('Extension');
cmp_ok(
	seconds_of(
		sub {
			$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $session->pid})");
			like($session->result, qr/^ERROR:  57014:/, '... a wait can be cancelled');
		}),
	'<', SOON, '... at once');

my $first = ZkTest->new($node, OWN_SESSION, 'zklock.connect_timeout' => '1s');
cmp_ok(
	seconds_of(
		sub {
			like($first->query(q(SELECT zk_lock_acquire('/never'))),
				qr/^ERROR:  08001:/, '... a first connect ends in time');
		}),
	'<', SOON, '... that of the setting');

# No thread can be started to close the session.
$first = ZkTest->new($node, OWN_SESSION);
$first->start(q(SELECT zk_lock_acquire('/never')));
$first->wait_for_event('Extension');
system('prlimit', '--nproc=1', '--pid', $first->pid) == 0 or die "prlimit: $?\n";
cmp_ok(
	seconds_of(
		sub {
			$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $first->pid})");
			like($first->result, qr/^ERROR:  57014:/, '... one can be cancelled without a thread');
		}),
	'<', SOON, '... at once');

# First connects that are given up leave threads behind, but few.
for my $given_up ([ 'a cancelled statement', 'statement_timeout' => '20ms' ],
	[ 'a short timeout', 'zklock.connect_timeout' => '20ms' ])
{
	my ($what, %setting) = @$given_up;
	my $session = ZkTest->new($node, OWN_SESSION, %setting);

	$session->query(q(SELECT zk_lock_acquire('/never'))) for 1 .. 24;
	my @threads = glob("/proc/${\ $session->pid}/task/*");
	cmp_ok(scalar(@threads), '<=', MOST_THREADS, "... $what, many times, leaves few threads");
	$session->query('SET statement_timeout = 0');
	like($session->query(q(SELECT zk_lock_acquire('/never'))),
		qr/^ERROR:  08001: .*^DETAIL:  None of the host names could be resolved\./ms,
		'... and the error tells why');
	$session->close;
}

$proxy->accept;
cmp_ok(
	seconds_of(sub { wait_until('the session is back', sub { is_connected($holder) }) }),
	'<', SOON, '... and a server that is back at its address is found');
is_deeply($solo->owners('/proxy'), $owners, '... with the lock');
is(scalar(resolver_threads($keeper)), 1, '... while the thread still waits');
my $numeric = ZkTest->new($node, 'zklock.hosts' => $solo->hosts);
cmp_ok(
	seconds_of(
		sub {
			is($numeric->query(q(SELECT zk_lock_acquire('/numeric'))),
				't', '... a first connect by an address succeeds');
		}),
	'<', SOON, '... at once');

my $pid = $holder->pid;
note(scalar(resolver_threads($keeper)), ' threads still wait for the resolver');
cmp_ok(
	seconds_of(
		sub {
			$holder->close;
			wait_until('the backend has ended', sub { !kill(0, $pid) });
		}),
	'<', SOON, '... a backend exits at once');
wait_for_queue($solo, '/proxy');
cmp_ok(seconds_of(sub { $node->stop }), '<', SOON, '... and a server stops at once');

done_testing();
