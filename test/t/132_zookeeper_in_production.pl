# docs/zookeeper.md: an ensemble with an observer loses its quorum, the data of a member, and
# a member by reconfiguration; Debian's packages with the page's commands; a server with older
# data; and the writes that locks cost.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Child;
use Docs;
use File::Path qw(make_path remove_tree);
use FindBin;
use List::Util qw(first);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkEnsemble;
use ZkServer;
use ZkTest;

use constant {
	LOCKS => 50,
	PATHS => 20,
	PATHS_PER_SECOND => 10,
};

my $page = slurp_file("$FindBin::RealBin/../../docs/zookeeper.md");
my $zk = ZkEnsemble->new(
	size => 4,
	config => { reconfigEnabled => 'true', skipACL => 'yes' });
my @servers = $zk->servers;
my ($observer, @members) = @servers[ 3, 0 .. 2 ];

$_->{config}{'server.4'} .= ':observer' for $observer;    # they share the hash
$observer->{config} = { %{ $observer->{config} }, peerType => 'observer' };

# Starts servers that stay readable when they have no quorum.
sub launch
{
	$_->launch('-Dreadonlymode.enabled=true') for @_;
	return;
}

launch(@servers);
wait_until('all serve', sub { !grep { !$_->mode(1) } @servers });

my $node = new_node(
	'main',
	join(',', map { $_->hosts } @members),
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.handover_time' => '1min',
	'zklock.keep_time' => '1min',
	'zklock.session_timeout' => '60s',
	'zklock.connect_timeout' => '20s');

# On a busy machine, a server may not answer at once.
sub leader
{
	return wait_until('there is a leader', sub { $zk->leader });
}

# Returns the server that a session is connected to.
sub server_of
{
	my ($session) = @_;
	my $id = $session->query('SELECT session_id FROM zk_session()');

	return wait_until('the session is connected',
		sub { first { $_->is_up && $_->four_letter('cons') =~ /\bsid=$id,/ } @servers });
}

# An observer

my $holder = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $observer->hosts);
my $rival = ZkTest->new($node, OWN_SESSION);

# It is read-only until it has found the leader.
wait_until('it is an observer', sub { $observer->mode eq 'observer' });
pass('there is an observer');
is($holder->query(q(SELECT zk_lock_acquire('/observed'))), 't', 'a lock is taken through it');
is($rival->query(q(SELECT zk_lock_acquire('/observed', '0'))), 'f', '... and is held for all');

# No quorum

my $writer = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '9s');
like($writer->query(q(BEGIN; SELECT zk_lock_guard('/written'))), qr/^\d+$/, 'a transaction has a lock');
my $owners = $zk->owners('/observed');
my $leader = leader();
my ($survivor, @lost) = grep { $_ != $leader } @members;
push @lost, $leader;
$_->stop for @lost;
wait_until('the others are in read-only mode',
	sub { !grep { $_->four_letter('isro', 1) ne 'ro' } $survivor, $observer });

my $late = ZkTest->new(
	$node, OWN_SESSION,
	'zklock.hosts' => join(',', $survivor->hosts, $observer->hosts),
	'zklock.connect_timeout' => '1s');
my $answer = $late->query(q(SELECT zk_lock_acquire('/late')));
like($answer, qr/^ERROR:  08001: could not connect to ZooKeeper$/m, 'no session begins in read-only mode');
like($answer, qr/^(?:DETAIL:  )?\Q$_\E is a ZooKeeper that is not serving: it has no quorum\.$/m,
	'... and the error tells why')
  for $survivor->hosts, $observer->hosts;
$writer->query(q(SET LOCAL zklock.connect_timeout = '1s'));
$writer->outlive_lease;
like($writer->query('COMMIT'), qr/^ERROR:  40001: lock on "\/written" was lost/m,
	'a commit without a quorum is refused');

launch($lost[0]);
wait_until('there is a quorum again', sub { $observer->mode(1) eq 'observer' });
like($holder->query(q(BEGIN; SELECT zk_lock_guard('/observed'); COMMIT)),
	qr/^\d+$/, 'with a quorum, the lock is held as before');
is_deeply($zk->owners('/observed'), $owners, '... by the same node');

# A member without its data

remove_tree("$lost[1]->{dir}/data/version-2");
launch($lost[1]);
wait_until('all serve', sub { !grep { !$_->mode(1) } @servers });
is_deeply($lost[1]->owners('/observed'), $owners, 'a member that has lost its data copies it');

# A member leaves the ensemble.

$leader = leader();
my ($leaver) = grep { $_ != $leader } @members;
my $waiter = ZkTest->new($node, OWN_SESSION);
my $client = ZkClient->new($leader->hosts);
my $mover;

do
{
	$mover->close if $mover;
	$mover = ZkTest->new($node, OWN_SESSION)->connect;
} until server_of($mover) == $leaver;
is($mover->query(q(SELECT zk_lock_acquire('/moved'))), 't', 'a session has a lock');
$waiter->start(q(SELECT zk_lock_acquire('/moved')));
wait_for_queue($zk, '/moved', $mover, $waiter);
$owners = $zk->owners('/moved');

my ($id) = grep { $servers[ $_ - 1 ] == $leaver } 1 .. @servers;
$client->call(reconfig => $id);
unlike($client->get('/zookeeper/config')->{data}, qr/^server\.$id=/m, 'its server leaves the ensemble');
$leaver->stop;
is($mover->query(q(SELECT zk_lock_acquire('/free'))), 't', '... and is stopped: the session moves');
isnt(server_of($mover), $leaver, '... to another server');
is_deeply($zk->owners('/moved'), $owners, '... with its lock, and the waiter has its place');
is($mover->query(q(SELECT zk_lock_release('/moved'))), 't', '... the lock is released');
is($waiter->result, 't', '... and the waiter has it');

# What an administrator looks at

my $values = leader()->four_letter('mntr');
my @names = $page =~ /`(zk_(?!lock)\w+)`/g;

cmp_ok(scalar @names, '>', 5, 'the page names values of mntr');
ok($values =~ /^$_\t/m, "mntr has $_") for @names;
$_->close for $holder, $writer, $rival, $late, $mover, $waiter;
$node->stop;
$zk->stop;

my ($heap) = $page =~ /`(-Xmx\w+)`/;
like(slurp_file("$FindBin::RealBin/../perl/ZkServer.pm"), qr/^\t\t'$heap',$/m, 'the heap in tests');

# An ensemble of Debian's packages, with the settings and the commands of the page. Paths are
# in a directory of each member; addresses and ports are of this machine.

SKIP:
{
	skip 'the ZooKeeper is not that of a package', 1 if $ENV{ZOOKEEPER_CLASSPATH};

	my ($cfg) = code_blocks('docs/zookeeper.md', 'properties');
	my ($commands) = code_blocks('docs/zookeeper.md', 'sh');
	my ($log) = $page =~ m{The log is then `(\S+)`};
	my $user = getpwuid($<);
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my %ports = map { $_ => join(':', ZkServer::free_port(), ZkServer::free_port()) } 1 .. 3;
	my @packaged = map { { number => $_, dir => "$dir/$_", server => ZkServer->new } } 1 .. 3;

	# Makes what the packages install, and the configuration.
	my $install = sub {
		my ($member) = @_;
		my $conf = "$member->{dir}/etc/zookeeper/conf";

		make_path(map { "$member->{dir}$_" }
			  qw(/etc/zookeeper/conf /etc/default /var/lib/zookeeper /var/log/zookeeper));
		append_to_file("$conf/environment", qq(CLASSPATH="$conf:/usr/share/java/zookeeper.jar"\n));
		append_to_file("$conf/log4j.properties", <<'EOF');
log4j.rootLogger=${zookeeper.root.logger}
log4j.appender.ROLLINGFILE=org.apache.log4j.RollingFileAppender
log4j.appender.ROLLINGFILE.File=${zookeeper.log.dir}/zookeeper.log
log4j.appender.ROLLINGFILE.layout=org.apache.log4j.PatternLayout
log4j.appender.ROLLINGFILE.layout.ConversionPattern=%p %m%n
EOF
		append_to_file("$conf/myid", "replace this text\n");
		symlink("$conf/myid", "$member->{dir}/var/lib/zookeeper/myid") or die "symlink: $!\n";
		append_to_file("$conf/zoo.cfg", $cfg =~ s{=(?=/var/)}{=$member->{dir}}gr
			  =~ s{^clientPort=\K.*}{$member->{server}->port}emr
			  =~ s{^server\.(\d)=\K.*}{127.0.0.1:$ports{$1}}gmr);
	};

	# Starts a member as its service does.
	my $start = sub {
		my ($member) = @_;
		my ($etc, $var) = map { "$member->{dir}/$_" } qw(etc var);

		$member->{java} = Child->start("$member->{dir}/out", 'sh', '-c', <<"EOF");
. $etc/zookeeper/conf/environment
[ -r $etc/default/zookeeper ] && . $etc/default/zookeeper
exec java -Xmx128m -cp \$CLASSPATH -Dzookeeper.log.dir=$var/log/zookeeper \\
	-Dzookeeper.root.logger=INFO,ROLLINGFILE \\
	org.apache.zookeeper.server.quorum.QuorumPeerMain $etc/zookeeper/conf/zoo.cfg
EOF
	};

	# Runs commands of the page, which are for the first member.
	my $run = sub {
		my ($member, @lines) = @_;
		my $sh = join("\n", @lines) =~ s{(?=/(?:var|etc)/)}{$member->{dir}}gr
		  =~ s/-o zookeeper -g zookeeper/-o $user/r =~ s/^echo \K1\b/$member->{number}/mr;

		Child->run("$dir/log", $Wait::timeout, 'sh', '-euc', qq(sudo() { "\$@"; }\n$sh));
	};

	$install->($_) for @packaged;

	# Without what the commands make, a member ends, and writes no log. Its user may not create
	# directories.
	my ($myid, @other_lines) = grep { !/ restart$/ } split(/\n/, $commands);
	my $first = $packaged[0];
	my %complaint = (
		'number' => qr/^Invalid config, exiting abnormally$/m,
		'log directory' => qr/^Unable to access datadir, exiting abnormally$/m);
	chmod(0555, "$first->{dir}/var/lib") or die "chmod: $!\n";
	for my $what ('number', 'log directory')
	{
		$run->($first, $myid) if $what ne 'number';
		$start->($first);
		isnt($first->{java}->end($Wait::timeout), 0, "without its $what, a member does not start");
		like($first->{java}->output, $complaint{$what}, '... for that reason');
		is_deeply([ glob("$first->{dir}/var/log/zookeeper/*") ], [], '... which is in no log');
	}
	chmod(0755, "$first->{dir}/var/lib") or die "chmod: $!\n";

	$run->($_, $myid, @other_lines) for @packaged;
	$start->($_) for @packaged;
	wait_until('the members serve',
		sub { !grep { $_->{java}->check; !$_->{server}->mode(1) } @packaged });
	is(join(' ', sort map { $_->{server}->mode } @packaged), 'follower follower leader',
		'the commands of the page make an ensemble');
	for my $member (@packaged)
	{
		like(slurp_file("$member->{dir}$log"), qr/^INFO .*binding to port/m, "... $log has messages");
		ok(-d "$member->{dir}/var/lib/zookeeper-log/version-2", '... and the transactions are in dataLogDir');
		$member->{java}->stop('TERM');
	}
}

# A server with the settings of the page, which removes no empty paths

my ($block) = code_blocks('docs/zookeeper.md', 'properties');
my %zoo = $block =~ /^(\S+?)=(.*)$/mg;
my $tick_time = delete $zoo{tickTime};
delete @zoo{ 'dataDir', 'dataLogDir', 'clientPort', grep { /^server\./ } keys %zoo };
my $solo = ZkServer->new(
	tick_time => $tick_time,
	config => { %zoo, maxSessionTimeout => 3600_000 })->start;

$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $solo->hosts}'");

# Sessions write so seldom to remain confirmed that this does not count.
$node->append_conf('postgresql.conf', "zklock.session_timeout = '30min'");
$node->start;

# The number of writes

sub zxid
{
	return hex(($solo->four_letter('srvr') =~ /^Zxid: 0x([0-9a-f]+)$/m)[0]);
}

my ($table) = $page =~ /^What \| Writes\n(.*?)\n\n/ms;
my %row = $table =~ /^(\w[^|]+) \| (\d+)$/mg;
my ($own, $other) = map { ZkTest->new($node, OWN_SESSION)->connect } 1 .. 2;
my ($first, $second) = map { ZkTest->new($node)->connect } 1 .. 2;
my $lock = q(SELECT zk_lock_acquire('/app/product_42'), zk_lock_release('/app/product_42'));
my $lease = q(SELECT zk_semaphore_acquire('/app/lease', 3), zk_semaphore_release('/app/lease'));
my $all = q(SELECT zk_lock_acquire_all('{/app/a, /app/b}'), zk_lock_release('/app/a'), zk_lock_release('/app/b'));
my $try = q(SELECT zk_lock_acquire('/app', '0'));

# Checks the number of writes that the code causes: $n times that of the table, and $more.
sub costs_ok
{
	my ($what, $code, $n, $more) = @_;
	my $writes = ($n // 1) * (delete $row{$what} // -1) + ($more // 0);
	my $before = zxid();

	$code->();
	wait_until("writes of $what", sub { zxid() - $before >= $writes });
	is(zxid() - $before, $writes, "writes: $what");
	return;
}

sub query_costs_ok
{
	my ($what, $session, $sql, $result, @n) = @_;

	costs_ok($what, sub { is($session->query($sql), $result, $sql) }, @n);
	return;
}

$own->query(q(SELECT zk_lock_acquire('/app')));
query_costs_ok('a lock on a new path below one that exists, and its release', $own, $lock, 't|t');
query_costs_ok('a lock on a path that exists, and its release', $own, $lock, 't|t');
query_costs_ok('a lock that the session holds already',
	$own, q(SELECT zk_lock_acquire('/app'), zk_lock_release('/app')), 't|t');
$own->query($_) for $lease, $all;
wait_until_released($solo, $own);
query_costs_ok('a lease of a semaphore, and its release', $own, $lease, 't|t');
query_costs_ok('each lock of `zk_lock_acquire_all`, and its release', $own, $all, 't|t|t', 2);
query_costs_ok('a try that is refused', $other, $try, 'f');
query_costs_ok('the next try, refused again', $other, $try, 'f');

# Waits, with the writes of a lock; the first record of a wait creates its parents.
my $wait = q(SELECT zk_lock_acquire('/app', '1s'));

$other->query(q(SET deadlock_timeout = '10ms'));
query_costs_ok('any other wait', $other, $wait, 'f', 1, 2);
$other->query(q(SELECT zk_lock_acquire('/app/other')));
$other->query($wait);
wait_until_released($solo, $own);
query_costs_ok('a wait of a session with other locks, beyond `deadlock_timeout`',
	$other, $wait, 'f', 1, 2);

$own->query(q(BEGIN; SET LOCAL zklock.confirm_commit = 'always'; SELECT zk_lock_acquire('/app/second')));
query_costs_ok('the check of a commit, if it asks ZooKeeper, for each lock', $own, 'COMMIT', '', 2);
$own->query(q(SELECT zk_lock_release('/app/second')));
wait_until_released($solo, $own);

costs_ok(
	'a session, begun and ended',
	sub {
		my $session = ZkTest->new($node, OWN_SESSION);

		$session->query(q(SELECT state FROM zk_lock_queue('/app')));
		$session->close;
	});
# The log

sub log_size
{
	my $size = 0;

	for my $file (glob("$solo->{dir}/data/version-2/log.*"))
	{
		open(my $fh, '<:raw', $file) or die "$file: $!\n";
		local $/;
		my $log = <$fh>;
		$log =~ s/\0+\z//;
		$size += length($log);
	}
	return $size;
}

my ($mb) = $page =~ /about ([\d.]+) MB a second to its log/;
my $before = log_size();
$own->query($lock) for 1 .. LOCKS;
wait_until_released($solo, $own);
my $each = (log_size() - $before) / LOCKS;
note("$each bytes for a lock");
ok(abs($each * 1000 / 1e6 - $mb) < $mb / 4, 'size of the log');

# One session for the server

$first->query(q(SELECT zk_lock_acquire('/app/handed')));
$second->start(q(SELECT zk_lock_acquire('/app/handed')));
$second->wait_for_lock;
costs_ok(
	'a lock that is handed over inside a server',
	sub {
		is($first->query(q(SELECT zk_lock_release('/app/handed'))), 't', 'a lock is released');
		is($second->result, 't', '... and handed over');
	});
$second->query(q(SELECT zk_lock_release('/app/handed')));
wait_until('a lock is kept', sub {
	$first->query($lock);
	return $first->query(q(SELECT kept FROM zk_lock_queue('/app/product_42'))) eq 't';
});
query_costs_ok('a lock that its server keeps', $first, $lock, 't|t');

# Older data, as from a backup, in which sessions are left that nobody continues

$node->stop;
$node->append_conf('postgresql.conf', "zklock.session_timeout = '4s'");
$node->start;
$own = ZkTest->new($node, OWN_SESSION)->connect;
system('cp', '-a', "$solo->{dir}/data", "$solo->{dir}/older") == 0 or die "cp: $?\n";
is($own->query(q(SELECT zk_lock_acquire('/app/newer'))), 't', 'a lock is newer than the data');
$solo->stop;
remove_tree("$solo->{dir}/data");
rename("$solo->{dir}/older", "$solo->{dir}/data") or die "older: $!\n";
$solo->{container_check} = 100;
$solo->launch('-Dznode.container.maxPerMinute=' . 60 * PATHS_PER_SECOND)->wait_until_serving;
is( ZkTest->new($node, OWN_SESSION)->query(q(SELECT zk_lock_acquire('/app/newer', '20s'))),
	't', '... which are restored: another client gets it');

# The removal of empty paths

$node->stop;
wait_until('neither sessions nor paths are left',
	sub { !$solo->sessions && $solo->children('/') == 1 });
$node->start;
$own = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '30min');
$own->query(
	sprintf(q(SELECT zk_lock_acquire('/empty/' || i) FROM generate_series(1, %d) AS i), PATHS));

my $began = time();
my $removals = (PATHS + 1) * delete $row{'the removal of an empty path, later'};
my $held = zxid();
is($own->query('SELECT zk_lock_release_all()'), PATHS, 'locks are released');

# ZooKeeper looks for such paths each 100 ms. It asks again for what a slow machine has not
# removed yet; that fails, and counts.
wait_until('empty paths are removed', sub { zxid() - $held >= PATHS + $removals });
my $seconds = time() - $began;
cmp_ok(zxid() - $held, '<', PATHS + $removals * 1.5, 'writes: the removal of an empty path, later');
ok(wait_until('the last one is, too', sub { !$solo->exists('/empty') }), '... of all of them');
cmp_ok($seconds, '>', PATHS / PATHS_PER_SECOND / 2, '... not faster than the limit');

is(join(', ', sort keys %row), '', 'all rows of the table are counted');

done_testing();
