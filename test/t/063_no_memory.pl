# The worker runs out of memory in each single call that allocates some,
# including calls of its client: the backend that made the request gets an
# error, other backends are not affected, and no node is left.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkClient;
use ZkServer;
use ZkTest;

use constant MANY => 1000;    # no operation has so many calls

my $zk = ZkServer->new->start;
my $library = build_module('no_memory');
my $node = new_node(
	'main', $zk->hosts,
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '40s',
	shared_preload_libraries => "zklock,$library");
$node->safe_psql('postgres', qq(
	CREATE FUNCTION no_memory(pid int, which int) RETURNS void
		AS '$library' LANGUAGE C STRICT;
	CREATE FUNCTION no_memory_calls() RETURNS text AS '$library' LANGUAGE C));

my ($holder, $observer, $first, $second) = map { ZkTest->new($node) } 1 .. 4;
my $worker = worker_of($node);

# Lets each call of the worker fail, one after the other, while $code runs on
# its own path, below which no node may be left. Reports what $code returns as
# errors. With $step, only every $step-th call fails.
sub sweep
{
	my ($what, $code, $step) = @_;
	my (%failed, @wrong);
	my $misses = 0;

	for (my $n = 1; $n < MANY; $n += $step // 1)
	{
		my $path = '/memory/' . $what =~ s/\W/_/gr . "/$n";

		$observer->query("SELECT no_memory($worker, $n)");
		my $done = eval {
			push @wrong, $code->($path);
			wait_until("no node is left at $path", sub { !$zk->children($path) });
			1;
		};
		my $call = $observer->query('SELECT no_memory_calls()');
		die "the $n-th call, $call, failed: $@" if !$done;
		if ($call ne '')
		{
			$failed{$call}++;
		}
		elsif (++$misses == 2)
		{
			last;
		}
	}
	ok(!@wrong, $what) or diag(join("\n", @wrong));
	wait_until('no claim is left',
		sub { !$observer->query('SELECT count(*) FROM zk_locks WHERE path LIKE \'/memory/%/%\'') });
	is(worker_of($node), $worker, '... and the worker continues');
	cmp_ok(scalar(keys %failed), '>', 3, '... and several kinds of calls failed');
	note(join(', ', map { "$_ $failed{$_}" } sort keys %failed));
	return;
}

# Returns nothing if the result of the session is 't' or an out-of-memory
# error, else the result.
sub unexpected
{
	my ($session) = @_;
	my $result = $session->result;

	return $result =~ /^(t|ERROR:  53200: .*|ERROR:  08001: .*memory.*)\z/s ? () : $result;
}

# Each session gets its lock in turn and releases it. The order of the sessions
# is not defined.
sub end_all
{
	my (@sessions) = @_;
	my @unexpected;

	while (@sessions)
	{
		my $done;

		wait_until('one session has its result',
			sub { ($done) = grep { $_->is_done } @sessions; $done });
		push @unexpected, unexpected($done);
		$done->query('SELECT zk_lock_release_all()');
		@sessions = grep { $_ != $done } @sessions;
	}
	return @unexpected;
}

# Changed settings need a new session once no lock is held in the old one. A
# session that cannot begin is tried again a second later.
my $timeout = 39;
sweep(
	'begin of a session',
	sub {
		my ($path) = @_;
		my ($n) = $path =~ /(\d+)$/;

		$observer->query('SELECT no_memory(0, 0)');
		$timeout = 79 - $timeout;
		$node->append_conf('postgresql.conf', "zklock.session_timeout = '${timeout}s'");
		$node->reload;
		wait_until('the old session is over', sub { !$zk->sessions });
		$observer->query("SELECT no_memory($worker, $n)");
		$first->start("SELECT zk_lock_acquire('$path')");
		return end_all($first);
	},
	3);

is($holder->query(q(SELECT zk_lock_acquire('/memory/held'))), 't', 'a lock is held');
my $session = $holder->query('SELECT session_id FROM zk_session()');
sweep(
	'acquire of a free lock',
	sub {
		my ($path) = @_;

		$first->start("SELECT zk_lock_acquire('$path')");
		return end_all($first);
	});
sweep(
	'wait for other nodes',
	sub {
		my ($path) = @_;
		my $ahead = $zk->put_ahead($path);

		$first->start("SELECT zk_lock_acquire('$path')");
		$second->start("SELECT zk_lock_acquire('$path', mode => 'shared')");
		wait_until('both wait, or have failed',
			sub { $zk->children($path) == 3 - $first->is_done - $second->is_done });
		$zk->delete($ahead);
		return end_all($first, $second);
	});
sweep(
	'cancelled wait',
	sub {
		my ($path) = @_;
		my $ahead = $zk->put_ahead($path);

		$first->start("SELECT zk_lock_acquire('$path')");
		wait_until('the first waits, or has failed',
			sub { $zk->children($path) == 2 || $first->is_done });
		$observer->query("SELECT pg_cancel_backend(${\ $first->pid})");
		my $result = $first->result;
		$zk->delete($ahead);
		return $result =~ /^ERROR:  (53200|57014): .*\z/s ? () : $result;
	});
sweep(
	'commit with confirmation',
	sub {
		my ($path) = @_;

		$first->start(qq(
			SET zklock.confirm_commit = 'always';
			BEGIN; SELECT zk_lock_guard('$path') > 0; COMMIT));
		my $result = $first->result;
		$first->query('ROLLBACK; SET zklock.confirm_commit = DEFAULT');
		return $result =~ /^(t|(t\n)?ERROR:  53200: .*)\z/s ? () : $result;
	});
sweep(
	'other kinds of locks',
	sub {
		my ($path) = @_;

		$first->start("SELECT zk_semaphore_acquire('$path', 2)");
		$second->start("SELECT zk_lock_acquire_all('{$path/a, $path/b}', mode => 'shared')");
		my @unexpected = end_all($first, $second);
		wait_until("no node is left below $path",
			sub { !grep { $zk->children("$path/$_") } qw(a b locks leases) });
		$zk->delete("$path/$_") for qw(a b locks leases);
		return @unexpected;
	});

# A revocation is noticed without another connection, unless the log says that it cannot be.
my $client = ZkClient->new($zk->hosts);
$first->query('SET zklock.revocable = on');
sweep(
	'revocable lock',
	sub {
		my ($path) = @_;

		$first->start("SELECT zk_lock_acquire('$path')");
		if ($first->result eq 't')
		{
			$client->set("$path/" . ($client->children($path))[0], '__REVOKE__');
			wait_until('the revocation is noticed, or impossible',
				sub {
					$observer->query("SELECT revoked FROM zk_locks WHERE path = '$path'") eq 't'
					  || slurp_file($node->logfile) =~ m{cannot be revoked: $path/};
				});
		}
		return end_all($first);
	});
$first->query('RESET zklock.revocable');
is($holder->query('SELECT session_id FROM zk_session()'),
	$session, 'session is the same after all failures');
is($holder->query('BEGIN; CREATE TABLE t (); COMMIT; SELECT zk_lock_release_all()'),
	1, '... and the first lock is still held');
wait_until_idle($node, $zk, '/memory/held');

# Failed attempts have freed their memory.
my $before = -s $node->logfile;
$observer->query("SELECT pg_log_backend_memory_contexts($worker)");
wait_until('the worker logs its memory contexts',
	sub { slurp_file($node->logfile, $before) =~ /Grand total/ });
my @left = slurp_file($node->logfile, $before) =~ /(zklock attempt): \d/g;
is(scalar(@left), 0, 'failed attempts have freed their memory');

done_testing();
