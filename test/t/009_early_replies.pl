# ZooKeeper's replies arrive before zklock's calls of its client library return, as they do if
# the thread that calls has to wait for a processor: nothing that the callbacks have freed is
# used after that, whatever the call returns, and the session is not closed before that. Freed
# memory has other contents at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant MANY => 100;    # no operation has so many calls

my $zk = ZkServer->new->start;
my $library = build_module('early_replies');

$ENV{GLIBC_TUNABLES} = 'glibc.malloc.tcache_count=0:glibc.malloc.perturb=90';
my $node = new_node('main', $zk->hosts, shared_preload_libraries => "zklock,$library");
$node->safe_psql('postgres', qq(
	CREATE FUNCTION early_replies(pid int, which int, cut bool, late bool, held bool)
		RETURNS void AS '$library' LANGUAGE C STRICT;
	CREATE FUNCTION early_replies_chosen() RETURNS bool AS '$library' LANGUAGE C;
	CREATE FUNCTION early_replies_closed() RETURNS bool AS '$library' LANGUAGE C));
my ($first, $second, $observer) = map { ZkTest->new($node) } 1 .. 3;

for my $sql (
	q(SELECT zk_lock_acquire('/a'), zk_lock_release('/a')),
	q(SELECT zk_lock_acquire('/a', mode => 'shared'), zk_lock_release('/a', 'shared')),
	q(SELECT zk_lock_acquire('/s', mode => 'simple'), zk_lock_release('/s', 'simple')),
	q(SELECT zk_lock_acquire_all('{/b,/c}'), zk_lock_release_all()),
	q(SELECT zk_shared_count_set('/n', 2)),
	q(SELECT zk_semaphore_acquire_counted('/sem', '/n'), zk_semaphore_release('/sem')))
{
	my $result = $first->query($sql);

	is($first->query($sql), $result, $sql);
}

for my $mode (qw(exclusive shared simple))
{
	for my $confirm (qw(lease always))
	{
		$first->query("BEGIN; SET LOCAL zklock.confirm_commit = '$confirm'");
		$first->query("SELECT zk_lock_guard('/$mode', mode => '$mode')");
		$first->query('COMMIT');
		is($second->query("SELECT zk_lock_acquire('/$mode', '5s', '$mode')"),
			't', "a commit with a lock in mode $mode, confirmed: $confirm");
		$second->query('SELECT zk_lock_release_all()');
	}
}

# A wait, one that is given up, and one that is granted
$first->query(q(SELECT zk_lock_acquire('/w')));
is($second->query(q(SELECT zk_lock_acquire('/w', '100ms'))), 'f', 'a wait is given up');
$second->start(q(SELECT zk_lock_acquire('/w')));
$first->query(q(SELECT zk_lock_release('/w')));
is($second->result, 't', 'a wait ends with a grant');
$second->query('SELECT zk_lock_release_all()');

# Each call of the library in turn runs out of memory: at once, or halfway. Then the library may
# run the callback, here because the connection is lost, before the call returns or after that.
my $keeper = keeper_of($first, $node);
my %operations = (
	'a lock' => [ $keeper, q(SELECT zk_lock_acquire('%s'), zk_lock_release('%1$s')) ],
	'a lease of a counted semaphore' => [
		$keeper, q(SELECT zk_semaphore_acquire_counted('%s', '/n'), zk_semaphore_release('%1$s'))
	],
	'a wait that is given up' => [ $keeper, q(SELECT zk_lock_acquire('%s', '100ms')) ],
	'a confirmed commit' => [
		$keeper, q(SET zklock.confirm_commit = 'always';
			BEGIN; SELECT zk_lock_guard('%s', mode => 'simple') > 0; COMMIT)
	],
	'a count' => [ $first->pid, q(SELECT zk_shared_count_set('%s', 2)) ]);

for my $how ('at once', 'halfway', 'halfway, with a late callback')
{
	for my $what (sort keys %operations)
	{
		my ($pid, $sql) = @{ $operations{$what} };
		my $failed = 0;
		my @unexpected;

		for my $n (1 .. MANY)
		{
			my $path = "/$how/$what/$n" =~ s/,? /-/gr;
			my $late = $how =~ /late/ ? 'true' : 'false';
			my $ahead = $what =~ /wait/ && $zk->put_ahead($path);

			$observer->query("SELECT early_replies($pid, $n, '$how' <> 'at once', $late, false)");
			my $result = $first->query(sprintf($sql, $path));
			my $chosen = $observer->query('SELECT early_replies_chosen()');
			die "the server does not answer any more\n" if $chosen !~ /^[tf]\z/;
			$observer->query('SELECT early_replies(0, 0, false, false, false)');
			$first->query('ROLLBACK; RESET ALL; SELECT zk_lock_release_all()');
			$zk->delete($ahead) if $ahead;
			push @unexpected, "call $n: $result"
			  if $result !~ /^([tf]?|t\|t|ERROR:  (53200|08006): .*)\z/s;
			last if $chosen eq 'f';
			$failed++;
		}
		ok(!@unexpected && $failed > 0 && $failed < MANY,
			"$what, if one of $failed calls runs out of memory $how")
		  or diag(@unexpected);
	}
}
is(keeper_of($first, $node), $keeper, 'the process that makes the calls continues');
wait_until('no node is left', sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t0$/m });

# A session that was unused for a second is closed, also after a call that has run out of
# memory, but not during a call.
if (!server_mode())
{
	my ($holder, $waiter, $counter) =
	  map { ZkTest->new($node, 'zklock.idle_session_timeout' => '1s') } 1 .. 3;

	$observer->query("SELECT early_replies(${\ $holder->pid}, 1, false, false, false)");
	is($holder->query(q(SELECT zk_lock_acquire('/h'), zk_lock_release('/h'))), 't|t',
		'a call runs out of memory');
	my $id = $holder->query('SELECT session_id FROM zk_session()');
	wait_until('the session is closed', sub { !grep { $_ eq $id } $zk->sessions });
	$holder->query(q(SELECT zk_lock_acquire('/h')));
	$waiter->start(q(SELECT zk_lock_acquire('/h')));
	wait_for_queue($zk, '/h', $holder, $waiter);
	$observer->query('SELECT early_replies(0, 0, false, false, true)');
	$observer->query("SELECT pg_cancel_backend(${\ $waiter->pid})");
	$counter->start(q(SELECT zk_shared_count_set('/n', 3)));
	like($waiter->result, qr/^ERROR:  57014:/,
		'a long call: a wait is cancelled, and its watch removed');
	is($counter->result, '', '... a count is set');
	is($holder->query(q(SELECT zk_lock_release('/h'))), 't', '... a lock is released');
	is($observer->query('SELECT early_replies_closed()'), 'f',
		'... and no session is closed meanwhile');
}
$_->close for $first, $second, $observer;
$node->stop;
unlike(slurp_file($node->logfile), qr/terminated by signal/, 'no process has crashed');

done_testing();
