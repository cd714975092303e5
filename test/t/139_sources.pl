# zk_sources shows where the data of a server comes from: its row on a standby, in each state,
# for each role. A standby does not go on after its primary has ended, before it was told to,
# and not any more when that answers again.
#
# Left out of make test: it takes long.
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use Docs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant PACE => 0.005; # s; between two questions

my $zk = ZkServer->new(tick_time => 200)->start;
my $primary = new_primary('primary', $zk->hosts, 'zklock.connect_timeout' => '60s');
my $writer = ZkTest->new($primary);
$writer->query('CREATE TABLE stock AS SELECT 0 AS n; CREATE ROLE nobody');

my $standby = new_standby('standby', $primary);
my $reader = ZkTest->new($standby);

# Columns of the only row, on the standby
sub source
{
	my ($columns) = @_;

	return ZkTest->new($standby)->query("SELECT $columns FROM zk_sources");
}

# The query of the page
my ($block) = sql_blocks('docs/operations.md', 'Servers that catch up');
my $needs_look = $block->{statements}[0][0];

# The view
is($writer->query('SELECT count(*) FROM zk_sources'), '0', 'a primary has no source');
is(source('*'), 'primary|primary|unknown|||||0|0|0', 'a standby before its first question');
$writer->query('UPDATE stock SET n = n + 1');
is($reader->query('SELECT zk_caught_up()'), 't', 'the standby catches up');
is( source(
		'state, position <= pg_last_wal_replay_lsn(), bytes_behind, asked < reached, reached <= now(), '
		  . 'catch_ups, failures, wait_time > 0'),
	'answers|t|0|t|t|1|0|t',
	'... and shows when, and that it was successful');
is($reader->query($needs_look), '', '... which needs no look');

change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('UPDATE stock SET n = n + 1');
$reader->start('CALL zk_catch_up()');
wait_until('the wait has an answer', sub { source('bytes_behind > 0') eq 't' });
is(source('state, position > pg_last_wal_replay_lsn(), asked > reached, catch_ups, failures'),
	'answers|t|t|1|0', 'a wait for replay');
like(
	ZkTest->new($standby)->query(
		"SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = ${\ $reader->pid}"),
	qr/^Extension\|(?:Extension|ZooKeeperCatchUp)$/,
	'... has a wait event');
kill('INT', $reader->pid);
like($reader->result, qr/^ERROR:  57014/m, '... is cancelled');
is(source('catch_ups, failures'), '1|1', '... which is a failure');
is($reader->query(q(SELECT zk_caught_up('10ms'))), 'f', 'not in time');
is(source('catch_ups, failures'), '1|2', '... is a failure, too');
$reader->query('SELECT pg_wal_replay_pause()');
is(source('state'), 'paused', 'replay is paused');
like($reader->query($needs_look), qr/^primary\|primary\|paused\|\d+\|2$/, '... which needs a look');
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55000/m, '... which is an error');
is(source('catch_ups, failures'), '1|3', '... and a failure');
$reader->query('SELECT pg_wal_replay_resume()');
change_setting($standby, 'recovery_min_apply_delay', 0, $reader);

# What is added to the primary is there for a standby, which does not wait for that.
my $add = q(SELECT zk_source_add('other', '', $$SELECT '0/1'::pg_lsn$$, 'nobody'));
is($writer->query($add), '', 'a source is added to the primary');
wait_until('it is there', sub { $reader->query('SELECT count(*) FROM pg_foreign_server') eq '1' });
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  0A000/m, '... for which its standby does not wait');
is(source('count(*)'), '1', '... nor shows it');
like($reader->query($add), qr/^ERROR:  25006/m, '... nor adds one');
like($reader->query(q(SELECT zk_source_forget('other'))), qr/^ERROR:  42704/m, '... nor forgets it');
is($writer->query(q(SELECT zk_source_forget('other'))), '', 'it is forgotten there');
wait_until('it is gone', sub { $reader->query('SELECT count(*) FROM pg_foreign_server') eq '0' });
is($reader->query('SELECT zk_caught_up()'), 't', '... and the standby goes on');

# Each role sees all of that, since there is nothing secret in it, and resets nothing.
is($reader->query('SET ROLE nobody; SELECT kind, name, position IS NULL, failures FROM zk_sources'),
	'primary|primary|f|4', 'a role without privileges sees all columns');
like($reader->query('SELECT zk_lock_stats_reset()'), qr/^ERROR:  42501/m, '... and resets nothing');
$reader->query('RESET ROLE; SELECT zk_lock_stats_reset()');
is(source('catch_ups, failures, wait_time, position IS NULL'), '0|0|0|f', 'a reset');

# Who may forget a source, and when
my $dir = '/zklock/positions/'
  . $writer->query('SELECT system_identifier FROM pg_control_system()');
my $forget = q(SELECT zk_source_forget('primary'));

# A node below that. The client makes no session for longer than this.
sub node
{
	my ($name) = @_;

	return ZkClient->new($zk->hosts)->get("$dir/$name");
}

like($reader->query("SET ROLE nobody; $forget"), qr/^ERROR:  42501/m, 'nobody forgets a source');
$reader->query('RESET ROLE');
like($writer->query($forget), qr/^ERROR:  42704: source "primary" does not exist/m, 'a primary has none');
like($reader->query(q(SELECT zk_source_forget('other'))), qr/^ERROR:  42704/m, 'another name');
like($reader->query($forget), qr/^ERROR:  55006: cannot forget a source that answers$/m,
	'one that answers is not forgotten');
ok(!node('forgotten'), '... and nothing is written');
is($reader->query('SELECT zk_caught_up()'), 't', '... and is waited for');

my $silent = qr/^ERROR:  55000: the server whose WAL is replayed here does not answer\nDETAIL:  In ZooKeeper, no server/m;

sub stop_primary
{
	my ($mode) = @_;

	$writer->close;
	$primary->stop($mode);
	wait_until('its session has ended', sub { !%{ $zk->owners("$dir/servers") } });
	return;
}

sub start_primary
{
	my (%settings) = @_;

	$primary->append_conf('postgresql.conf', "$_ = '$settings{$_}'") for sort keys %settings;
	$primary->start;
	$writer = ZkTest->new($primary);
	return;
}

sub wait_until_it_answers
{
	wait_until('the primary answers',
		sub { $reader->query('SELECT zk_caught_up()') eq 't' && source('state') eq 'answers' });
	return;
}

# The primary has ended, and the standby shows all of its WAL. But another one may run by now.
$writer->query('UPDATE stock SET n = 100');
stop_primary('fast');
like($reader->query('CALL zk_catch_up()'), $silent, 'a primary that is shut down is silent');
is(source('state'), 'silent', '... which is shown');
is($reader->query($forget), '', 'it is forgotten');
is($reader->query('SELECT zk_caught_up()'), 't', '... so nothing is waited for');
is(source('state'), 'forgotten', '... which is shown');

# Questions that nobody has to answer have the same pace as others.
my ($before, $begun) = (node('asked')->{version}, time());
$reader->query(q(DO $$ BEGIN FOR i IN 1..200 LOOP PERFORM zk_caught_up(); END LOOP; END $$));
my ($asked, $took) = (node('asked')->{version} - $before, time() - $begun);
cmp_ok($asked, '<=', $took / PACE + 1, sprintf('%d questions in %.2f s', $asked, $took));

# It is not forgotten any more before it is seen to answer, also if that was said meanwhile.
my $proxy = ZkProxy->new($zk->hosts);
my $held = $proxy->rule(dir => 'c2s', path => "$dir/servers/", action => 'hold', pings => 1);
start_primary('zklock.hosts' => $proxy->hosts);
wait_until('the primary creates its node', sub { $proxy->fired($held) });
like($reader->query('CALL zk_catch_up()'), $silent, 'a primary that runs is not forgotten');
is($reader->query($forget), '', '... but may be again, while it is not seen');
is($reader->query('SELECT zk_caught_up()'), 't', '... so nothing is waited for');
$proxy->release;
wait_until_it_answers();
stop_primary('immediate');
like($reader->query('CALL zk_catch_up()'), $silent, '... until it answers');

# An error leaves nothing behind, in the moment when it was written.
sub forgets
{
	my ($timeout, %action) = @_;
	my $session = ZkTest->new($standby);

	$session->query("SET zklock.hosts = '${\ $proxy->hosts}'; SET zklock.connect_timeout = '$timeout'");
	my $rule = $proxy->rule(dir => 's2c', op => 'setData', path => "$dir/forgotten", %action);

	$session->start($forget);
	wait_until('it is written', sub { $proxy->fired($rule) });
	return $session;
}

my @hold = ('60s', action => 'hold', pings => 1);
my $forgetter = forgets(@hold);
kill('INT', $forgetter->pid);
$proxy->release;
like($forgetter->result, qr/^ERROR:  57014: (?!.*HINT)/ms, 'it is cancelled');
is(node('forgotten')->{data}, '', '... and not forgotten');
like($reader->query('CALL zk_catch_up()'), $silent, '... as is seen');
$forgetter->close;

$forgetter = forgets(@hold);
start_primary('zklock.hosts' => $zk->hosts);
wait_until('the primary answers', sub { %{ $zk->owners("$dir/servers") } });
$proxy->release;
like($forgetter->result, qr/^ERROR:  55006: cannot forget a source that answers$/m,
	'one that answers by then is not forgotten');
is(node('forgotten')->{data}, '', '... and nothing is left');
$forgetter->close;
wait_until_it_answers();
stop_primary('immediate');

$forgetter = forgets('2s', action => 'drop', refuse => 1);
like(
	$forgetter->result,
	qr/^ERROR:  .*^HINT:  The source may be forgotten nevertheless\./ms,
	'it is said that nothing could be taken back');
is(node('forgotten')->{data}, 'forgotten', '... which was so');
$forgetter->close;
start_primary();
wait_until_it_answers();
is(node('forgotten')->{data}, '', '... until the primary answers');

# While a copy answers, and not the primary, a wait begins. The primary answers again, before
# the standby has replayed what the copy has said.
sub worker
{
	return $writer->query(
		q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock WAL positions'));
}

change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('UPDATE stock SET n = 200');
my $copy = new_standby('copy', $primary);
$primary->wait_for_catchup($copy, 'replay', $primary->lsn('flush'));
$copy->promote;
wait_until('the copy answers, too', sub { keys %{ $zk->owners("$dir/servers") } == 2 });
my ($postmaster) = slurp_file($primary->data_dir . '/postmaster.pid') =~ /^(\d+)/;
my $worker = worker();
kill('STOP', $postmaster);    # so that it does not start the process again
kill('TERM', $worker);
wait_until('only the copy answers', sub { keys %{ $zk->owners("$dir/servers") } == 1 });
$reader->start('CALL zk_catch_up()');
wait_until('it has answered', sub { source('state') eq 'answers' });
kill('CONT', $postmaster);
my ($number, @answers);
wait_until(
	'both have answered',
	sub {
		$number = sprintf('%016x', node('asked')->{mzxid});
		@answers = grep { (node("servers/$_")->{data} // '') =~ /^1 $number / }
		  keys %{ $zk->owners("$dir/servers") };
		return @answers == 2;
	});
change_setting($standby, 'recovery_min_apply_delay', 0, $writer);
is($reader->result, '', 'the answer of the primary is seen');
is($reader->query('SELECT n FROM stock'), '200', '... and what was committed before');
$_->close for $writer, $reader;

done_testing();
