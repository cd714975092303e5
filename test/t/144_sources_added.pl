# A database whose rows a program copies, and not a subscription: zk_catch_up waits for sources
# that were added. What their queries may do and return, and who sees how they are reached. The
# source has neither zklock nor ZooKeeper, except where it has sources itself.
#
# Left out of make test: it takes long.
# Runs once: the session in ZooKeeper does not matter.

use strict;
use warnings;

use Docs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Template;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

use constant ROUNDS => 10;
use constant SECRET => 'xyzzy';

my $zk = ZkServer->new->start;
my %conf = (
	shared_preload_libraries => 'zklock',
	'zklock.catch_up' => 'off',
	'zklock.catch_up_timeout' => '60s');
my $source = PostgreSQL::Test::Cluster->new('source');
init_node($source);
$source->append_conf('postgresql.conf', "wal_level = 'replica'\nmax_wal_senders = 5\nlog_connections = on");
$source->start;
my $copy = new_node('copy', $zk->hosts, %conf, wal_level => 'replica', max_wal_senders => 5);
my $writer = ZkTest->new($source);
my $reader = ZkTest->new($copy);
my $copier = ZkTest->new($copy);

$writer->query('CREATE TABLE stock AS SELECT 0 AS n');
$copier->query(q(
	CREATE ROLE shop; CREATE ROLE anyone LOGIN;
	CREATE SCHEMA shop AUTHORIZATION shop; GRANT USAGE ON SCHEMA shop TO PUBLIC;
	SET ROLE shop;
	CREATE TABLE shop.stock AS SELECT 0 AS n;
	CREATE TABLE shop.copied (lsn pg_lsn);
	GRANT SELECT ON shop.stock TO PUBLIC;
	INSERT INTO shop.copied VALUES ('0/1');
	CREATE SEQUENCE shop.looks));

sub write_stock
{
	return $writer->query('UPDATE stock SET n = n + 1 RETURNING n');
}

sub read_stock
{
	return $reader->query('SELECT n FROM shop.stock');
}

# Copies the rows. The position is read before their snapshot is taken.
sub copy_rows
{
	my $position = $writer->query('SELECT pg_current_wal_flush_lsn()');
	my $n = $writer->query('SELECT n FROM stock');

	$copier->query("BEGIN; UPDATE shop.stock SET n = $n; UPDATE shop.copied SET lsn = '$position'; COMMIT");
	return;
}

# Catches up while the rows are copied. Returns its error, if any.
sub caught_up
{
	$reader->start('CALL zk_catch_up()');
	copy_rows() while !$reader->is_done;
	return $reader->result;
}

# The statement that adds a source
sub add
{
	my ($name, %change) = @_;
	my %source = (
		conninfo => $source->connstr('postgres'),
		query => q(SELECT lsn FROM shop.copied, nextval('shop.looks')),
		role => 'shop',
		origin => 'any',
		%change);

	return sprintf(q(SELECT zk_source_add('%s', %s)), $name,
		join(', ', map { '$q$' . $_ . '$q$' } @source{qw(conninfo query role origin)}));
}

sub sources
{
	my ($columns) = @_;

	return $reader->query("SELECT $columns FROM zk_sources");
}

# What cannot be added
is($reader->query('CALL zk_catch_up()'), '', 'nothing to do without a source');
$copier->query('RESET ROLE; BEGIN; LOCK TABLE pg_subscription_rel');
is($reader->query(q(SET zklock.catch_up = 'guard'; BEGIN; SELECT zk_lock_guard('/stock') > 0; COMMIT)),
	't', '... nor to look at for a guard');
$copier->query('COMMIT; SET ROLE shop');
$reader->query('RESET zklock.catch_up');
for my $wrong (
	[ {}, '42501: permission denied for function', 'a user who is no superuser', 'SET ROLE anyone' ],
	[ {}, '42501: only superusers', '... also one who may call the function',
		'GRANT EXECUTE ON FUNCTION zk_source_add, zk_source_forget TO anyone; SET ROLE anyone' ],
	[ { conninfo => 'where?' }, '42601', 'a malformed connection string' ],
	[ { origin => 'some' }, '22023', 'another origin' ],
	[ { role => 'nobody' }, '42704', 'a role that does not exist' ],
	[ { role => 'anyone' }, '42501: permission denied for table copied', 'a role that may not read' ],
	[ { query => 'SELECT lsn FROM copied' }, '42P01', 'a table without its schema', 'SET search_path = public, shop' ],
	[ { query => 'SELECT 1' }, '42804', 'a query of another type' ],
	[ { query => q(UPDATE shop.copied SET lsn = '0/1' RETURNING lsn) }, '0A000', 'a query that writes' ])
{
	my ($change, $error, $what, $before) = @$wrong;

	like($reader->query(($before // 'SELECT') . '; ' . add('stock', %$change)), qr/^ERROR:  $error/m, $what);
	$reader->query('RESET ROLE; RESET search_path');
}
like($reader->query(q(SELECT zk_source_add('stock', null, 'SELECT', 'shop'))), qr/^ERROR:  22004/m, 'null');
is($reader->query('SELECT count(*) FROM pg_foreign_server'), '0', '... leave nothing');

my ($example) = grep { /zk_source_add/ } code_blocks('docs/high-availability.md', 'sql');
is($reader->query($example =~ s/service=warehouse/${\ $source->connstr}/r), '', 'the example');
is($reader->query(q(SELECT zk_source_forget('warehouse'))), '', '... is forgotten');
my $long = 'x' x 70;
like($reader->query(add($long)), qr/\ANOTICE:  42622: identifier "$long" will be truncated to "x{63}"$/m,
	'a long name is truncated');
like($reader->query("SELECT zk_source_forget('$long')"), qr/\ANOTICE:  42622: .*\n.*\n?\z/, '... also of what is forgotten');
is(sources('count(*)'), '0', '... and is');
is($reader->query(add('stock')), '', 'a source is added');
like($reader->query(add('stock')), qr/^ERROR:  42710/m, '... once');
is(sources('kind, name, state, position, bytes_behind, failures'), 'added|stock|unknown|||0', '... and shown');

# Who waits for a moment only does not have it connect again and again.
my ($postmaster) = split(/\n/, slurp_file($source->data_dir . '/postmaster.pid'));
my $received = -s $source->logfile;
kill('STOP', $postmaster);
my $begun = time();
while (time() < $begun + 2)
{
	$reader->query(q(SELECT zk_caught_up('1ms')));
}
my $seconds = time() - $begun;
kill('CONT', $postmaster);
$source->safe_psql('postgres', 'SELECT 1');
my $connects = () = slurp_file($source->logfile, $received) =~ /connection received/g;
cmp_ok($connects, '<=', $seconds + 2, "waits for $seconds s, each of 1 ms, have connected $connects times");

# It waits until the rows are there.
my $now = write_stock();
cmp_ok(read_stock(), '<', $now, 'a row is not copied yet');
is($reader->query(q(SELECT zk_caught_up('300ms'))), 'f', '... so the copy has not caught up');
my $late = wait_until('the source has answered', sub {
	my $answer = $reader->query(q(CALL zk_catch_up('300ms')));
	return $answer !~ /not answered/ && $answer;
});
like($late,
	qr{^ERROR:  55P03: could not catch up in time\nDETAIL:  Source "stock" has been copied up to 0/1, and has been waited for \d+ ms to be up to \S+, which is [1-9]\d* bytes further\.}m,
	'... or an error that names the source');
is(sources('state, bytes_behind > 0, catch_ups, failures > 0'), 'behind|t|0|t', '... and the view shows how far');
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
is($copier->query("SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE pid = ${\ $reader->pid}"),
	't', '... by a wait without a snapshot');
copy_rows();
is($reader->result, '', '... that ends when it is there');
is(read_stock(), $now, '... and is read');
is(sources('state, bytes_behind, catch_ups'), 'reached|0|1', '... as the view shows');
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
kill('INT', $reader->pid);
like($reader->result, qr/^ERROR:  57014/m, 'a wait can be cancelled');

my (@wrote, @read);
for (1 .. ROUNDS)
{
	push @wrote, write_stock();
	caught_up();
	push @read, read_stock();
}
is("@read", "@wrote", 'each reads what was written');

# What any role can cost: looks are shared, and paced.
my @many = map { ZkTest->new($copy, role => 'anyone') } 1 .. 3;
my $looks = sub { $copier->query('SELECT last_value FROM shop.looks') };
my $before = $looks->();
$begun = time();
$_->start(q(SELECT zk_caught_up('1s'))) for @many;
is(join(' ', map { $_->result } @many), 'f f f', 'several wait');
my $n = $looks->() - $before;
cmp_ok($n, '<=', 100 * (time() - $begun) + 2, "... and it is looked $n times, a hundred times a second at most");
cmp_ok($n, '>', 1, '... and more than once');

# Queries that fail, and whose rights they have
sub refused
{
	my ($detail, $what, $logged) = @_;
	my $end = -s $copy->logfile;

	$logged //= $detail;
	# After a failure, there is the same error for a second.
	my $error = wait_until($what, sub {
		my $answer = $many[0]->query('CALL zk_catch_up()');
		return $answer =~ /DETAIL:  $detail/ &&
		  slurp_file($copy->logfile, $end) =~ /DETAIL:  $logged\n/ && $answer;
	});
	like($error, qr/^ERROR:  55000: source "stock" cannot catch up\n.*/m, $what);
	unlike($error, qr/${\ SECRET}/, '... without what only its role may read');
	return;
}

# Runs the code while the query reads a function with this body.
sub with_trap
{
	my ($body, $code) = @_;

	wait_until('the last error is over', sub { $many[0]->query(q(SELECT zk_caught_up('100ms'))) !~ /ERROR/ });
	$copier->query(qq(
		ALTER TABLE shop.copied RENAME TO kept;
		CREATE FUNCTION shop.trap() RETURNS pg_lsn LANGUAGE plpgsql AS \$\$ $body \$\$;
		CREATE VIEW shop.copied AS SELECT shop.trap() AS lsn));
	$code->();
	$copier->query('DROP VIEW shop.copied; DROP FUNCTION shop.trap; ALTER TABLE shop.kept RENAME TO copied');
	return;
}
my $failed = q(Its query has failed\.  The server's log says why\.);
my $logged;
$copier->query('UPDATE shop.copied SET lsn = null');
refused('Its query has returned no position\.', 'a query that returns null');
copy_rows();
with_trap(sprintf(q(
	BEGIN
		ALTER ROLE shop SUPERUSER;
		RETURN '0/1';
	EXCEPTION WHEN insufficient_privilege THEN
		RAISE '%s of %%', current_user;
	END), SECRET), sub {
	refused($failed, 'a query that has become a trap', SECRET . ' of shop');
	is($copier->query(q(SELECT rolsuper FROM pg_roles WHERE rolname = 'shop')), 'f', '... of its role only');
});

# It pretends to be cancelled. Another error is logged, although those who wait see the same.
with_trap(qq(BEGIN RAISE '${\ SECRET}' USING ERRCODE = 'query_canceled'; END), sub {
	refused($failed, 'a query that raises the error of a cancellation', SECRET);
});

# It waits for itself, or ends its process, or catches each cancellation. The process ends, and the
# next one is not started at once.
my $process = q(FROM pg_stat_activity WHERE backend_type = 'zklock publishers');
with_trap(q(BEGIN PERFORM public.zk_caught_up('60s'); RETURN '0/1'; END), sub {
	refused($failed, 'a query that catches up', 'cannot use ZooKeeper locks within security-restricted operation');
});
with_trap(q(BEGIN PERFORM set_config('exit_on_error', 'on', false); RETURN 1 / 0; END), sub {
	$logged = -s $copy->logfile;
	$begun = time();
	is($many[0]->query(q(SELECT zk_caught_up('2500ms'))), 'f', 'a query that ends the process');
	my $ends = () = slurp_file($copy->logfile, $logged) =~ /FATAL:  division by zero/g;
	cmp_ok($ends, '<=', time() - $begun + 1, "... $ends times, which is once in a second");
	cmp_ok($ends, '>', 0, '... or more');
});
with_trap(q(
	BEGIN
		LOOP
			BEGIN
				PERFORM pg_sleep(1000);
			EXCEPTION WHEN query_canceled THEN NULL;
			END;
		END LOOP;
	END), sub {
	$logged = -s $copy->logfile;
	is($many[0]->query(q(SELECT zk_caught_up('1500ms'))), 'f', 'a query that does not end');
	$copy->wait_for_log(qr/LOG:  query of source "stock" did not end within 1000 ms after it was canceled/, $logged);
	wait_until('its process ends', sub { $copier->query("SELECT count(*) $process") eq '0' });
	pass('... whose process ends');
});
copy_rows();
is(caught_up(), '', '... and another one asks');

# What the database sets for its sessions neither ends nor stops the process, nor does a standby
# that does not answer: looks write here.
my %of_database = (
	default_transaction_read_only => 'on',
	default_transaction_isolation => 'serializable',
	exit_on_error => 'on',
	lock_timeout => '1ms',
	(transaction_timeout => '1s') x ($copier->query('SHOW server_version_num') >= 170000));
change_setting($copy, 'synchronous_standby_names', 'nobody', $copier);
$copier->query('RESET ROLE; SET synchronous_commit = local');
$copier->query("ALTER DATABASE postgres SET $_ = '$of_database{$_}'") for keys %of_database;
$copier->query("SELECT count(pg_terminate_backend(pid)) $process; SET ROLE shop");
$copier->query('BEGIN; LOCK TABLE shop.copied');
$reader->start('CALL zk_catch_up()');
wait_until('a look waits', sub {
	$reader->is_done || $copy->safe_psql('postgres', "SELECT wait_event_type $process") eq 'Lock';
});
$copier->query('COMMIT');
copy_rows() while !$reader->is_done;
is($reader->result, '', 'settings of the database, a lock, and no synchronous standby');
$copier->query('RESET ROLE');
$copier->query("ALTER DATABASE postgres RESET $_") for keys %of_database;
$copier->query('RESET synchronous_commit; SET ROLE shop');
change_setting($copy, 'synchronous_standby_names', '', $copier);

# How it is reached, which only superusers see
my $with_secret = sprintf('%s dbname=none password=%s', $source->connstr, SECRET);
$logged = -s $copy->logfile;
my $alter = 'ALTER USER MAPPING FOR CURRENT_USER SERVER stock OPTIONS (SET conninfo $$%s$$)';
$copier->query('RESET ROLE; ' . sprintf($alter, $with_secret));
my $error = wait_until('it is connected anew', sub {
	my $answer = $many[0]->query('CALL zk_catch_up()');
	return $answer =~ /^ERROR:  08001: could not connect to source "stock"\nHINT:  .*$/m && $answer;
});
unlike($error, qr/${\ SECRET}/, 'a source that cannot be reached');
$copy->wait_for_log(qr/could not connect to source "stock"\n.*database "none" does not exist/, $logged);
unlike(slurp_file($copy->logfile, $logged) =~ s/ALTER USER.*//gr, qr/${\ SECRET}/, '... logged without its secret');
for my $table (qw(pg_foreign_server pg_user_mappings zk_sources), q(pg_stat_activity WHERE query !~ 'ALTER USER'))
{
	unlike($many[0]->query("SELECT * FROM $table"), qr/${\ SECRET}/, "$table does not show it");
}
like($many[0]->query('SELECT * FROM pg_user_mapping'), qr/^ERROR:  42501/m, 'pg_user_mapping is not for anyone');
like($many[0]->query(q(SELECT zk_source_forget('stock'))), qr/^ERROR:  42501: only superusers/m,
	'... who cannot forget it either');
my ($dump) = run_command([ 'pg_dump', '-s', '-d', $copy->connstr('postgres') ]);
like($dump, qr/^CREATE USER MAPPING .* SERVER stock.*conninfo .*${\ SECRET}/ms, 'a dump of a superuser has it');

# An owner who is no superuser could change the role.
$copier->query('GRANT USAGE ON FOREIGN DATA WRAPPER zk_source TO anyone; ALTER SERVER stock OWNER TO anyone');
wait_until('it is refused', sub { $reader->query('CALL zk_catch_up()') =~ /^ERROR:  42501: owner of source "stock" must be a superuser/m });
pass('the source of another owner');
$copier->query('ALTER SERVER stock OWNER TO CURRENT_USER');
$copier->query(sprintf($alter, $source->connstr('postgres')));
wait_until('it answers', sub { $reader->query(q(SELECT zk_caught_up('10ms'))) eq 'f' });

# A source that has sources itself catches up first, unless what it has from them does not come here.
$copier->query('CREATE DATABASE third');
my $at_end = ZkTest->new($copy, database => 'third');
$at_end->query('CREATE EXTENSION zklock');
my %complete = (conninfo => $copy->connstr('postgres'),
	query => q(SELECT 'FFFFFFFF/FFFFFFFF'::pg_lsn), role => 'pg_monitor');
$at_end->query(add('any', %complete));
is($at_end->query(q(SELECT zk_caught_up('500ms'))), 'f', 'a source that has not caught up itself');
$at_end->start('CALL zk_catch_up()');
copy_rows() while !$at_end->is_done;
is($at_end->result, '', '... until it has');
like($at_end->query('DROP EXTENSION zklock'), qr/^ERROR:  2BP01: .*\nDETAIL:  server any depends on/m,
	'... without which the extension is not dropped');
$at_end->query(q{SELECT zk_source_forget('any'); } . add('none', %complete, origin => 'none'));
is($at_end->query(q(SELECT zk_caught_up())), 't', '... of which nothing comes here');

# It is forgotten while somebody waits for it.
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
is($copier->query(q(SELECT zk_source_forget('stock'))), '', 'it is forgotten');
is($reader->result, '', '... and not waited for any more');
like($copier->query(q(SELECT zk_source_forget('stock'))), qr/^ERROR:  42704/m, '... once');
is(sources('count(*)'), '0', '... and not shown');
$_->close for $writer, $reader, $copier, @many, $at_end;

done_testing();
