# A database whose rows a program copies, and not a subscription: zk_catch_up waits for sources
# that were added. What their queries may do and return, and who sees how they are reached. The
# source has neither zklock nor ZooKeeper, except where it has sources itself.
#
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
$source->append_conf('postgresql.conf', "wal_level = 'replica'\nmax_wal_senders = 5");
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
	$reader->start('CALL zk_catch_up()');
	copy_rows() while !$reader->is_done;
	$reader->result;
	push @read, read_stock();
}
is("@read", "@wrote", 'each reads what was written');

# What any role can cost: looks are shared, and paced.
my @many = map { ZkTest->new($copy, role => 'anyone') } 1 .. 3;
my $looks = sub { $copier->query('SELECT last_value FROM shop.looks') };
my ($before, $begun) = ($looks->(), time());
$_->start(q(SELECT zk_caught_up('1s'))) for @many;
is(join(' ', map { $_->result } @many), 'f f f', 'several wait');
my $n = $looks->() - $before;
cmp_ok($n, '<=', 100 * (time() - $begun) + 2, "... and it is looked $n times, a hundred times a second at most");
cmp_ok($n, '>', 1, '... and more than once');

# Queries that fail, and whose rights they have
sub refused
{
	my ($detail, $what) = @_;

	# After a failure, there is the same error for a second.
	my $error = wait_until($what, sub {
		my $answer = $many[0]->query('CALL zk_catch_up()');
		return $answer =~ /DETAIL:  $detail/ && $answer;
	});
	like($error, qr/^ERROR:  55000: source "stock" cannot catch up\n.*/m, $what);
	unlike($error, qr/${\ SECRET}/, '... without what only its role may read');
	return;
}
my $logged = -s $copy->logfile;
$copier->query('UPDATE shop.copied SET lsn = null');
refused('Its query has returned no position\.', 'a query that returns null');
$copier->query(sprintf(q(
	ALTER TABLE shop.copied RENAME TO kept;
	CREATE FUNCTION shop.trap() RETURNS pg_lsn LANGUAGE plpgsql AS $$
	BEGIN
		ALTER ROLE shop SUPERUSER;
		RETURN '0/1';
	EXCEPTION WHEN insufficient_privilege THEN
		RAISE '%s of %%', current_user;
	END$$;
	CREATE VIEW shop.copied AS SELECT shop.trap() AS lsn), SECRET));
refused(q(Its query has failed\.  The server's log says why\.), 'a query that has become a trap');
$copy->wait_for_log(qr/DETAIL:  ${\ SECRET} of shop\n/, $logged);
is($copier->query(q(SELECT rolsuper FROM pg_roles WHERE rolname = 'shop')), 'f', '... of its role only');
$copier->query('DROP VIEW shop.copied; ALTER TABLE shop.kept RENAME TO copied');
copy_rows();

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
