# Connections are lost for less than the session timeout, with one or several
# servers in zklock.hosts, some of them dead: holders and waiters keep their
# locks and their places in the queue.
#
# For the order in which the C client tries the servers, see zkhosts.h.
#
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use IO::Socket::INET;
use List::Util qw(max);
use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkLine;
use ZkProxy;
use ZkServer;
use ZkTest;

# The client waits two thirds of this for a server that does not answer.
use constant TIMEOUT => 8;

my $zk = ZkServer->new->start;
my @proxies = map { ZkProxy->new($zk->hosts) } (1 .. 4);
my %patience = (
	'zklock.session_timeout' => TIMEOUT . 's',
	'zklock.connect_timeout' => '1min');
my $node = new_node('main', $zk->hosts, OWN_SESSION);

# Cuts all connections, and waits until $number sessions are connected again,
# through the given proxies only.
sub reconnect
{
	my ($number, @through) = @_;

	$_->refuse for @proxies;
	$_->cut for @proxies;
	$_->mark for @proxies;
	$_->accept for @through;
	wait_until(
		"$number sessions are connected again",
		sub {
			# On a busy machine, a session may lose its new connection again
			# meanwhile.
			my %connected =
			  map { $_->{session} => 1 }
			  grep { $_->{dir} eq 's2c' && $_->{op} eq 'connect' }
			  map { $_->trace } @through;

			die "a session has expired\n" if $connected{'0x0'};
			return keys %connected == $number;
		},
		3 * TIMEOUT);
	return;
}

# From each server to each other and back, while only one accepts connections.

for my $size (1 .. @proxies)
{
	my @members = @proxies[ 0 .. $size - 1 ];
	my @tour = map {
		my $from = $members[$_];
		((map { ($from, $_) } @members[ $_ .. $#members ]), $from)
	} (0 .. $#members);

	my $line = ZkLine->new(
		$zk, "/servers/$size", [$node], %patience,
		'zklock.hosts' => join(',', map { $_->hosts } @members));
	$line->form;
	reconnect(4, $_) for @tour;
	$line->kept_ok("reconnect with $size servers");
	$line->finish_ok;
	$line->close;
}

# Some servers never answer, or do not exist. The new connection can be lost
# again at once.

my $silent = IO::Socket::INET->new(
	LocalAddr => '127.0.0.1',
	Listen => 128,
	Proto => 'tcp') or die "cannot listen: $@";
my @dead = map { '127.0.0.1:' . ZkServer::free_port() } (1 .. 3);
my ($live, $other) = map { $_->hosts } @proxies;
my $mute = '127.0.0.1:' . $silent->sockport;
my @lists = (
	[ $live, $dead[0] ],
	[ $dead[0], $live ],
	[ $live, $mute ],
	[ $mute, $live ],
	[ $mute, $live, $dead[0] ],
	[ $live, $mute, $dead[0], $dead[1] ],
	[ $mute, @dead, $live ],
	[ $live, $other, $mute, $dead[0] ],
	[ $mute, $dead[0], $other, $live ]);
my @holders = map {
	ZkTest->new($node, %patience, 'zklock.hosts' => join(',', @$_))
} @lists;

$_->accept for @proxies;
$holders[$_]->start("SELECT zk_lock_acquire('/list/$_')") for 0 .. $#lists;
$_->result for @holders;
my @owners = map { $zk->owners("/list/$_") } 0 .. $#lists;
for (1 .. 2)
{
	# An idle client may be silent for a third of the timeout. A server that
	# does not answer takes two thirds, which would leave no time on a busy
	# machine. So each session sends a request first.
	$_->query(
		q(SELECT zk_lock_acquire(path) AND zk_lock_release(path)
		  FROM (SELECT '/heard/' || pg_backend_pid()) AS own (path)))
	  for @holders;
	reconnect(scalar(@lists), @proxies);
}
for (0 .. $#lists)
{
	my $list = join(', ',
		map { $_ eq $mute ? 'silent' : /^($live|$other)$/ ? 'live' : 'dead' }
		  @{ $lists[$_] });

	is_deeply($zk->owners("/list/$_"), $owners[$_],
		"lock is kept with servers $list");
}

# A connection that is lost before the client notices it does not count.
my $library = build_module('late_callback');
my $session =
  ZkTest->new($node, %patience, 'zklock.session_timeout' => '60s', 'zklock.hosts' => $proxies[0]->hosts);
my $log_from = -s $node->logfile;

is( $session->query(
		qq(LOAD 'zklock'; LOAD '$library';
		   CREATE FUNCTION late_callback() RETURNS void
		   AS '$library' LANGUAGE c;
		   SELECT zk_lock_acquire('/late'))),
	't', 'session is connected');
my $owners = $zk->owners('/late');

# After a short connection, the next one counts only after a request: see
# zksession.c.
my $began = time();
wait_until('the connection has lasted for a second', sub { time() > $began + 1.1 });
$session->query('SELECT late_callback()');
my $rule = $proxies[0]->rule(
	dir => 's2c', op => 'connect', action => 'cut', refuse => 1);
my $accepted = $proxies[0]->accepted;
$proxies[0]->cut;
wait_until('one connection was cut, and more are tried',
	sub { $proxies[0]->fired($rule) && $proxies[0]->accepted >= $accepted + 4 });
wait_until('the session has noticed the loss',
	sub { $session->query('SELECT state FROM zk_session()') eq 'connecting' });
$proxies[0]->reset;
wait_until('the session is connected again',
	sub { $session->query('SELECT state FROM zk_session()') eq 'connected' });
my @lines = substr(slurp_file($node->logfile), $log_from) =~ /LOG:  (the connection .*)/g;
my $server = $proxies[0]->hosts;
is(scalar(@lines), 2, 'connection that was lost at once does not count')
  or diag(@lines);
like($lines[0], qr/, with server \Q$server\E, was lost$/,
	'... the log has the loss of the first connection');
like($lines[1], qr/is back after \d+ ms, with server \Q$server\E$/,
	'... and the reconnect');
is_deeply($zk->owners('/late'), $owners, '... and the lock is kept');
$session->close;

# At the end of a list of servers, the client would pause for a sixtieth of the timeout.
my $proxy = ZkProxy->new($zk->hosts);
my $patient = ZkTest->new(
	$node, OWN_SESSION,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '1h');

is($patient->query(q(SELECT zk_lock_acquire('/patient'))), 't', 'a session with a long timeout has a lock');

my $longest = 0;
for my $loss (1 .. 6)
{
	my $accepted = $proxy->accepted;
	my $began = time();

	$proxy->cut;
	wait_until("there is another connection after loss $loss",
		sub { $proxy->accepted > $accepted
			  && $patient->query('SELECT state FROM zk_session()') eq 'connected' });
	$longest = max($longest, time() - $began);
}
cmp_ok($longest, '<', 60, '... and none of its reconnects waits for a part of that');

done_testing();
