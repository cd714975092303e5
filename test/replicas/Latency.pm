# What zk_catch_up() adds on a standby and on a subscriber while nothing else happens, part by
# part: on this machine, and with a round trip of 2 ms to ZooKeeper and to the primary. Then what
# it costs who does not call it: what a primary sends that nobody asks, and that no lock sends
# more.
#
# PostgreSQL flushes what it writes, and ZooKeeper does not. The parts on a standby are seen by a
# proxy before ZooKeeper, which adds to them, and those on a subscriber in the publisher's
# pg_stat_activity.

package Latency;

use strict;
use warnings;

use Delay;
use List::Util qw(first);
use Session;
use Stage;
use Time::HiRes qw(sleep time);
use Wait;
use ZkProxy;
use ZkServer;

use constant {
	US => 1000,      # delay in each direction
	PAUSE => 0.02,   # s between two calls: questions that follow each other at once have a pace
	WARM => 20,      # calls before those that count
	FIRST => 30,     # calls for which a process and a connection are needed
	IDLE => 60,      # s
	LOCKS => 100,    # of each server in each mode
};

my ($zk, $tmp, $reads, %server, $dir, $port, $password);

my @of_standby = (
	'until the question is in ZooKeeper',
	'until the primary has read it',
	'until its answer, which it has flushed, is there',
	'until the standby has read that',
	'until it is replayed');
my @of_subscriber = (
	'until the publisher has the question',
	'until it has flushed its answer',
	'until that is back, and applied');
my @of_first = ('until the subscriber has a process', 'until that is connected', @of_subscriber[ 1, 2 ]);

sub measure
{
	($zk, $tmp, $reads, %server) = @_;
	$dir = '/zklock/positions/'
	  . $server{primary}->psql('-c', 'SELECT system_identifier FROM pg_control_system()');
	listen_to_passwords();
	my $proxy = ZkProxy->new($zk->hosts);
	my @ports = ($zk->port, $proxy->hosts =~ s/.*://r, $port);
	my @delayed = map { Delay->new($tmp, $_, US)->port } @ports;

	printf("What zk_catch_up() adds, in ms: median and 95 %% of %d calls\n", $reads);
	for my $way ([ loopback => @ports ], [ '2 ms' => @delayed ])
	{
		my ($name, $to_zk, $to_proxy, $to_primary) = @$way;

		lead($to_proxy, $to_primary);
		my @parts = calls($server{standby}, sub { $proxy->mark }, sub { parts_of_standby($proxy, @_) });
		lead($to_zk, $to_primary);
		show("standby, $name", calls($server{standby}));
		show("... through a proxy", @parts);
		show_parts(\@of_standby, @parts);
		my @calls = calls($server{subscriber}, sub { }, \&parts_of_subscriber);
		show("subscriber, $name", @calls);
		show_parts(\@of_subscriber, @calls);
		@calls = first_calls();
		show("... first of ${\ FIRST} times", @calls);
		show_parts(\@of_first, @calls);
	}
	my $conn = lead($ports[1], $port, $proxy);
	count_idle($proxy, $conn);
	count_locks($proxy, $conn);
	return;
}

# The primary also listens to a port of this machine, for who has a password.
sub listen_to_passwords
{
	my $primary = $server{primary};
	my $file = $primary->host . '/data/pg_hba.conf';

	$port = $primary->port;
	open(my $random, '<:raw', '/dev/urandom') or die "/dev/urandom: $!\n";
	read($random, my $bytes, 16) == 16 or die "/dev/urandom: $!\n";
	$password = unpack('H*', $bytes);
	open(my $fh, '>', $file) or die "$file: $!\n";
	print $fh "local all,replication all trust\nhost all,replication all 127.0.0.1/32 scram-sha-256\n";
	close($fh) or die "$file: $!\n";
	$primary->psql('-c', "ALTER USER postgres PASSWORD '$password'",
		'-c', q(ALTER SYSTEM SET listen_addresses = '127.0.0.1'), '-c', 'ALTER SYSTEM SET fsync = on');
	$primary->restart('INT');
	return;
}

# Leads all servers to ZooKeeper, and the others to the primary, through these ports. Returns the
# primary's connection for answers to this proxy.
sub lead
{
	my ($to_zk, $to_primary, $proxy) = @_;
	my $conninfo = "host=127.0.0.1 port=$to_primary user=postgres dbname=postgres password=$password";
	my ($before) = $zk->children("$dir/servers");

	$proxy->mark if $proxy;
	$_->change('zklock.hosts' => "127.0.0.1:$to_zk") for @server{qw(primary standby subscriber)};
	$server{standby}->change(primary_conninfo => $conninfo);
	$server{subscriber}->psql('-c', "ALTER SUBSCRIPTION orders CONNECTION '$conninfo'");
	wait_until('the primary has a new session', sub {
		my @now = $zk->children("$dir/servers");
		return @now == 1 && $now[0] ne $before;
	});
	for my $server (@server{qw(standby subscriber)})
	{
		wait_until('it catches up', sub { Session::ask($server, 'SELECT zk_caught_up()') eq 't' });
	}
	return if !$proxy;
	my ($now) = $zk->children("$dir/servers");
	return $proxy->wait_frame(dir => 'c2s', path => "$dir/servers/$now")->{conn};
}

# Returns the times of each of so many calls: when it began, what $parts returns, and when it
# ended.
sub calls
{
	my ($server, $before, $parts) = @_;
	my $session = Session->new($server);
	my @calls;

	while (@calls < WARM + $reads)
	{
		sleep(PAUSE);
		$before->() if $before;
		push @calls, timed($session, $parts);
	}
	$session->close;
	return @calls[ WARM .. $#calls ];
}

sub timed
{
	my ($session, $parts) = @_;
	my $begun = time();
	my $answer = $session->query('CALL zk_catch_up()');
	my $ended = time();

	die "$answer\n" if $answer ne '';
	return [ $begun, $parts ? $parts->($begun, $ended) : (), $ended ];
}

# When ZooKeeper got the question, answered to the primary, got its answer, and answered to the
# standby
sub parts_of_standby
{
	my ($proxy, $begun, $ended) = @_;
	my @frames = grep { $_->{at} <= $ended } $proxy->trace;
	my $asked = _frame('c2s setData', "$dir/asked", @frames);
	my $published = _frame('c2s setData', "$dir/servers/.*", @frames);
	my $read = _frame('s2c getData', "$dir/asked", reverse grep { $_->{at} < $published } @frames);

	return ($asked, $read, $published, _frame('s2c getData', "$dir/servers/.*", reverse @frames));
}

sub _frame
{
	my ($what, $path, @frames) = @_;
	my $frame = first { "$_->{dir} $_->{op}" eq $what && $_->{path} =~ /^$path$/ } @frames;

	die "no $what $path\n" if !$frame;
	return $frame->{at};
}

# When the publisher got the last question, and had answered it
sub parts_of_subscriber
{
	return asked('query_start', 'state_change');
}

# Times of the newest connection to the publisher
sub asked
{
	my @columns = map { "extract(epoch FROM $_)" } @_;

	return split(/\|/, $server{primary}->psql('-c', "SELECT @{[ join(', ', @columns) ]} FROM pg_stat_activity
		WHERE application_name = 'zklock' ORDER BY backend_start DESC LIMIT 1"));
}

# The same after the end of the subscriber's process that asks
sub first_calls
{
	my $session = Session->new($server{subscriber});
	my $process = q(FROM pg_stat_activity WHERE backend_type = 'zklock publishers');
	my @calls;

	for (1 .. FIRST)
	{
		$session->query("SELECT pg_terminate_backend(pid) $process");
		wait_until('it has ended', sub { $session->query("SELECT count(*) $process") eq '0' });
		push @calls, timed($session, sub { asked(qw(backend_start query_start state_change)) });
	}
	$session->close;
	return @calls;
}

sub show
{
	my ($what, @calls) = @_;

	show_figures($what, map { $_->[-1] - $_->[0] } @calls);
	return;
}

sub show_parts
{
	my ($names, @calls) = @_;

	for my $i (0 .. $#$names)
	{
		show_figures("    $names->[$i]", map { $_->[ $i + 1 ] - $_->[$i] } @calls);
	}
	return;
}

sub show_figures
{
	my ($what, @seconds) = @_;
	my @ms = sort { $a <=> $b } map { 1000 * $_ } @seconds;

	printf("%-56s %6.1f %6.1f\n", $what, $ms[ @ms / 2 ], $ms[ 0.95 * @ms ]);
	return;
}

# What the primary's connection for answers sends while nobody asks
sub count_idle
{
	my ($proxy, $conn) = @_;
	my ($session) = values %{ $zk->owners("$dir/servers") };
	my ($watches) = $zk->four_letter('wchc') =~ /^$session\n((?:\t.*\n)*)/m;
	my %count = (ping => 0);

	$proxy->mark;
	sleep(IDLE);
	$count{ $_->{op} }++ for grep { $_->{dir} eq 'c2s' && $_->{conn} == $conn } $proxy->all_frames;
	printf("A primary that nobody asks has a session with %d watch, and sends in %d s: %s\n",
		scalar(() = ($watches // '') =~ /\n/g), IDLE, join(', ', map { "$_ $count{$_}" } sort keys %count));
	return;
}

# What locks send on servers that do not catch up
sub count_locks
{
	my ($proxy, $conn) = @_;

	for my $name (qw(primary standby subscriber))
	{
		for my $mode (qw(server backend))
		{
			my $session = Session->new($server{$name}, 'zklock.session_mode' => $mode)->connect;

			$proxy->wait_idle;
			$proxy->mark;
			for (1 .. LOCKS)
			{
				my $answer = $session->query(q(BEGIN; SELECT zk_lock_guard('/replicas/count') > 0; COMMIT));
				die "$answer\n" if $answer ne 't';
			}
			$proxy->wait_idle;
			my @requests = grep { $_->{conn} != $conn } $proxy->requests;
			my $more = grep { ($_->{path} // '') =~ m{^/zklock/positions} } @requests;

			printf("%d locks on the %s, mode %s, send %d requests, %d of them to catch up\n",
				LOCKS, $name, $mode, scalar(@requests), $more);
			check($more == 0, "$more requests too many");
			$session->close;
		}
	}
	return;
}

1;
