# What a standby that catches up relies on, beside the decisions that walquestion_sim plays: the
# code that does what they say. Each change of it here is detected by a check that succeeds
# without it.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Shortened unless ZKLOCK_LONG is set: two changes, not six.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $primary = new_primary('primary', $zk->hosts, wal_writer_delay => '10s');
$primary->safe_psql('postgres', 'CREATE TABLE stock AS SELECT 0 AS n');
my $standby = new_standby('standby', $primary);
my ($writer, $reader, $client, $answerer);
my $dir = '/zklock/positions/'
  . $primary->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()');

sub begin
{
	($writer, $reader) = map { ZkTest->new($_) } $primary, $standby;
	$writer->query('SET synchronous_commit = off');
	$answerer = $writer->query(
		q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock WAL positions'));
	$client = ZkClient->new($zk->hosts, 60_000);
	wait_until('the primary answers', sub { $client->children("$dir/servers") == 1 });
	return;
}

# A commit that nobody has flushed is shown, and in time.
sub shows_all
{
	$writer->query('UPDATE stock SET n = n + 1');
	my $done = $reader->query(q(SELECT zk_caught_up('3s')));
	return $done eq 't' && $reader->query('SELECT n FROM stock') eq $writer->query('SELECT n FROM stock');
}

# While the primary does not answer: may this answer, to what is asked meanwhile, be counted?
# It is made of the primary's last one.
sub refuses
{
	my ($make) = @_;
	my ($source) = $client->children("$dir/servers");

	$writer->query('SET synchronous_commit = on; UPDATE stock SET n = n + 1');
	$reader->query(q(SELECT zk_caught_up('10s')));
	my $last = $client->get("$dir/servers/$source")->{data};
	my $before = $client->exists("$dir/asked")->{mzxid};
	kill('STOP', $answerer);
	$reader->start(q(SELECT zk_caught_up('2s')));
	my $asked = wait_until('the standby asks',
		sub { my $now = $client->exists("$dir/asked")->{mzxid}; $now > $before && $now });
	my $answer = $make->($last, sprintf('%016x', $asked));
	my $path = $client->create("$dir/servers/0123456789abcdef", $answer, 1);
	my $counted = $reader->result;
	$client->delete($path);
	kill('CONT', $answerer);
	return $counted ne 't';
}

sub refuses_older { return refuses(sub { my ($last) = @_; return $last; }); }

sub refuses_copies
{
	return refuses(
		sub {
			my ($last, $question) = @_;
			return $last =~ s/^1 \K\S+/$question/r =~ s/([0-9a-f]{2})$/sprintf('%02x', hex($1) ^ 1)/er;
		});
}

my @checks = (\&shows_all, \&refuses_older, \&refuses_copies);
begin();
ok($checks[$_]->(), "check $_ succeeds") for 0 .. $#checks;

my $walworker = 'worker/walworker.c';
my $catchup = 'backend/catchup.c';
my @mutants = (
	[ 'a record is not flushed', $walworker, sub { s/XLogFlush\(answerer\.position\.end\);// }, 0 ],
	[ 'the position is that where WAL is inserted', $walworker,
		sub { s/position->end = (zklock_compat_log_message\(.*?\);)/$1 position->end = GetXLogInsertRecPtr() + 8;/s }, 0 ],
	[ 'the position is that of the last commit', $walworker,
		sub { s/position->end = (zklock_compat_log_message\(.*?\);)/$1 position->end = XactLastCommitEnd;/s }, 0 ],
	[ 'an answer to an older question counts', $catchup,
		sub { s/wait\.question = catchup->answers\.question/wait.question = 1/ }, 1 ],
	[ 'the bytes of the record are not compared', $catchup,
		sub { s/ &&\s+memcmp\(message->message \+ prefix, .*?\) == 0// }, 2 ],
	[ 'no record is looked for', $catchup,
		sub { s/found = ZKLOCK_WAL_RECORD_OTHER;/found = ZKLOCK_WAL_RECORD_FOUND;/ }, 2 ]);
changed_source(@$_[ 1, 2 ]) for @mutants;
for my $mutant (every(3, @mutants))
{
	my ($what, $file, $change, $check) = @$mutant;
	my $library = $primary->basedir;

	$_->close for $writer, $reader, $client;
	build_zklock($primary, [], $file => $change);
	$standby->append_conf('postgresql.conf', qq(
		shared_preload_libraries = '$library/zklock'
		dynamic_library_path = '$library:\$libdir'));
	$standby->restart;
	begin();
	ok(!$checks[$check]->(), "check $check detects that $what");
}
$_->close for $writer, $reader;

done_testing();
