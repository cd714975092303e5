# Two servers, of which one has a newer build of zklock, share locks, semaphores, kept nodes
# and records of waits; and nodes have the names and data that src/README says.
#
# The newer build is this one with additions to what it writes.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Sys::Hostname;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

use constant WAITS => '/zklock/waits';

my $zk = ZkServer->new->start;
my %conf = (
	deadlock_timeout => '200ms',
	'zklock.session_mode' => 'server',
	'zklock.handover_time' => '1min',
	'zklock.keep_time' => '1min');
my ($present, $newer) = map { new_node($_, $zk->hosts, %conf) } qw(present newer);

# Lines of another use in records, and other keys in the data of each node
build_zklock(
	$newer,
	[],
	'protocol/waitrecord.c' => sub {
		s/^(zklock_waitrecord_write_node\(.*?)(\treturn write_line\()/$1
	const char *const other[] = {"other", path, node};

	size = write_line(text, size, room, other, ELEMENTS(other));
	if (size == 0)
		return 0;
$2/ms;
	},
	'session/nodedata.c' => sub {
		s/^\tif \(revocable\)\n\t\tappend_field/\tappend_field(&data, "other", "a b");
	if (!revocable)
		append_field(&data, "revocable", "f");
$&/m;
	},
	'worker/workerattempts.c' => sub { s/"%\.\*s%s"/"%.*s other='a b'%s"/ });

my $uuid = qr/_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-/;
my $marked = $uuid =~ s/-4\[/-8[/r;
my $n = 0;

# Returns a statement that takes a lock, or a lease.
sub acquire
{
	my ($path, $mode, $timeout) = @_;
	my $arguments = "scope => 'transaction', timeout => '" . ($timeout // '1min') . "'";

	return $mode eq 'semaphore' ? "SELECT zk_semaphore_acquire('$path', 1, $arguments)" :
	  $mode eq 'counted' ? "SELECT zk_semaphore_acquire_counted('$path', '/limits/one', $arguments)" :
	  "SELECT zk_lock_acquire('$path', mode => '$mode', $arguments)";
}

# Starts a statement that takes a lock, and waits until it waits.
sub block
{
	my ($session, $path, $mode) = @_;

	$session->start(acquire($path, $mode));
	wait_until("a session waits for $path", sub {
		grep { $_->safe_psql('postgres', <<"EOSQL") } $present, $newer;
SELECT true FROM zk_locks WHERE pid = ${\ $session->pid} AND NOT granted
EOSQL
	});
	return;
}

# The bytes

# Returns the name and the data of each child of a path.
sub nodes
{
	my ($path) = @_;

	return map { $_ => $zk->get("$path/$_")->{data} } $zk->children($path);
}

my $own = ZkTest->new($present, OWN_SESSION, application_name => 'the test');
my $host = hostname();
my $server = "host=$host port=" . $present->port;
my $backend = "$server pid=" . $own->pid . ' database=postgres user='
  . $own->query('SELECT current_user') . q( application='the test');

sub check_node
{
	my ($session, $mode, $dir, $name, $data, $what) = @_;
	my $path = '/bytes/' . ++$n;

	$session->query('BEGIN');
	is($session->query(acquire($path, $mode)), 't', "a lock: $what");
	my ($node, $said) = nodes("$path$dir");
	like($node, qr/\A$name\z/, '... the name of its node');
	like($said, qr/\A$data\z/, '... and its data');
	is($zk->get("$path$dir")->{data}, $mode eq 'semaphore' ? '1' : '', '... and that of its parent');
	$session->query('ROLLBACK');
	return;
}

my $shared = ZkTest->new($present);
$own->query(q(SELECT zk_shared_count_set('/limits/one', 1)));
check_node($own, @$_)
  for [ 'exclusive', '', qr/${uuid}lock-\d{10}/, qr/\Q$backend\E/, 'exclusive' ],
  [ 'shared', '', qr/${uuid}__READ__\d{10}/, qr/\Q$backend\E/, 'shared' ],
  [ 'write', '', qr/${uuid}__WRIT__\d{10}/, qr/\Q$backend\E/, 'write' ],
  [ 'semaphore', '/leases', qr/${uuid}lease-\d{10}/, qr/\Q$backend\E/, 'semaphore' ],
  [ 'counted', '/leases', qr/${uuid}lease-\d{10}/, qr/\Q$backend\E/, 'semaphore with a count' ];
check_node($shared, 'exclusive', '', qr/${uuid}lock-\d{10}/, qr/\Q$server\E/, 'a gate');
$own->query('SET zklock.revocable = on');
check_node($own, 'exclusive', '', qr/${uuid}lock-\d{10}/, qr/\Q$backend revocable=t\E/, 'revocable');
$own->query('RESET zklock.revocable; BEGIN');
$own->query(acquire('/bytes/simple', 'simple'));
like($zk->get('/bytes/simple')->{data}, qr/\A\Q$backend\E id=$uuid\z/, 'a simple lock');
is($zk->get('/limits/one')->{data}, "\0\0\0\1", 'a count');
$own->query('ROLLBACK');

sub warm
{
	my ($session, $path) = @_;

	$session->query("SELECT zk_lock_acquire('$path'), zk_lock_release('$path')") for 1 .. 4;
	return;
}

warm($shared, '/bytes/kept');
my ($kept, $data) = nodes('/bytes/kept');
like($kept, qr/\A${marked}lock-\d{10}\z/, 'a kept node');
is($data, $server, '... and its data');
$own->query(q(SELECT zk_lock_acquire('/bytes/kept'), zk_lock_release_all()));

# Two builds

for my $kind ('own', 'shared')
{
	my @sessions = map { ZkTest->new($_, $kind eq 'own' ? OWN_SESSION : ()) } $present, $newer;

	for (0, 1)
	{
		my ($first, $second) = @sessions[ $_, 1 - $_ ];
		my $which = "$kind sessions, " . ('present', 'newer')[$_] . ' build first';
		my $path;

		# Locks exclude each other, and pass from one build to the other.
		for my $modes (
			[qw(exclusive exclusive)], [qw(shared write)], [qw(write shared)], [qw(simple simple)],
			[qw(semaphore semaphore)], [qw(counted counted)])
		{
			my ($mode, $other) = @$modes;

			$path = '/turns/' . ++$n;
			$_->query('BEGIN') for $first, $second;
			is($first->query(acquire($path, $mode)), 't', "$which: $mode is held");
			is($second->query(acquire($path, $other, '0')), 'f', "... and excludes $other");
			block($second, $path, $other);
			$first->query('ROLLBACK');
			is($second->result, 't', '... until it is released');
			$second->query('ROLLBACK');
		}
		$path = '/turns/' . ++$n;
		$_->query('BEGIN') for $first, $second;
		is($_->query(acquire($path, 'shared', '0')), 't', "$which: readers share a lock")
		  for $first, $second;
		$_->query('ROLLBACK') for $first, $second;

		# A deadlock: the second one reads the record of the first one.
		my $record;
		for my $version (1, 2)
		{
			$path = '/deadlock/' . ++$n;
			$_->query('BEGIN') for $first, $second;
			$first->query(acquire("$path/1", 'exclusive'));
			$second->query(acquire("$path/2", 'write'));
			block($first, "$path/2", 'exclusive');
			wait_until('there is a record', sub { ($record) = $zk->children(WAITS) });
			$record = WAITS . "/$record";
			my $client = ZkClient->new($zk->hosts);
			my $text = $client->get($record)->{data};
			my $known = $text =~ s/^other\t.*\n//mgr;

			is($known ne $text, $_ == 1, "$which: only the newer build writes lines of another use");
			like($record, qr/\A${\ WAITS}\/[0-9a-f]{80}\z/, '... its name');
			like($known, qr{\A
				zklock-1\t\d+-\d+\thost=\S+\ port=\d+\ pid=${\ $first->pid}\ .*\n
				waits\texclusive\t$path/2\t${uuid}lock-\d{10}\n
				holds\texclusive\t$path/1\t${uuid}lock-\d{10}\n\z}x, '... and its text');
			if ($version == 1)
			{
				like($second->query(acquire("$path/1", 'exclusive')), qr/^ERROR:  40P01: /,
					"... and a deadlock is found");
			}
			else
			{
				$client->set($record, $text =~ s/^zklock-1/zklock-2/r);
				is($second->query(acquire("$path/1", 'exclusive', '1s')), 'f',
					'a process with a record of another version seems to run');
			}
			$second->query('ROLLBACK');
			is($first->result, 't', '... and the other one goes on');
			$first->query('ROLLBACK');
			$client->close;
			wait_until('no record is left', sub { !$zk->children(WAITS) });
		}
	}
	$_->close for @sessions;
}

for (0, 1)
{
	my @nodes = ($present, $newer)[ $_, 1 - $_ ];
	my $which = ('present', 'newer')[$_] . ' build first';
	my @first = map { ZkTest->new($nodes[0]) } 1, 2;
	my $second = ZkTest->new($nodes[1]);

	# A gate: the node is handed over, and then goes to the other build.
	$first[0]->query(q(SELECT zk_lock_acquire('/gate')));
	$first[1]->start(q(SELECT zk_lock_acquire('/gate')));
	wait_for_queue($zk, '/gate', @first);
	$second->start(q(SELECT zk_lock_acquire('/gate')));
	wait_for_queue($zk, '/gate', @first, $second);
	$first[0]->query(q(SELECT zk_lock_release('/gate')));
	is($first[1]->result, 't', "$which: a lock is handed over");
	is($first[1]->query(q(SELECT zk_lock_grant_number('/gate'))), 1, '... with its node');
	ok(!$second->is_done, '... while the other build waits');
	$first[1]->query(q(SELECT zk_lock_release('/gate')));
	is($second->result, 't', '... and then gets it');
	$second->query(q(SELECT zk_lock_release('/gate')));

	# A kept node is given back.
	warm($first[0], "/kept/$_");
	like(($zk->children("/kept/$_"))[0], qr/\A$marked/, "$which: a lock is kept");
	is($second->query(qq(SELECT zk_lock_acquire('/kept/$_', '1min'))), 't', '... and gets it');
	is(scalar(() = $zk->children("/kept/$_")), 1, '... alone');

	# A lock is revoked, and shown with its client.
	my $holder = ZkTest->new($nodes[0], OWN_SESSION, 'zklock.revocable' => 'on');
	$holder->query(q(SELECT zk_lock_acquire('/revoked')));
	is($second->query(q(SELECT port, pid FROM zk_lock_queue('/revoked'))),
		$nodes[0]->port . '|' . $holder->pid, "$which: the holder is shown");
	is($second->query(q(SELECT zk_lock_revoke('/revoked'))), 1, '... and its lock is revoked');
	my $silent = ZkTest->new($nodes[0], OWN_SESSION);
	$silent->query(q(SELECT zk_lock_acquire('/silent')));
	is($second->query(q(SELECT zk_lock_revoke('/silent'))), 0,
		'... but not that of a holder that has not agreed');
	$_->close for @first, $second, $holder, $silent;
}

done_testing();
