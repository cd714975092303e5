# zklock.path_prefix: whatever a confined role calls or sets, it cannot use or
# see paths outside its prefix.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Docs;
use File::Find;
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node =
  new_node('main', $zk->hosts, 'zklock.session_mode' => 'backend');    # not preloaded
my $preloaded =
  new_node('preloaded', $zk->hosts, shared_preload_libraries => 'zklock');

# A session of a role, with settings of its client
sub as_role
{
	my ($server, $role, $options) = @_;

	local $ENV{PGUSER} = $role;
	local $ENV{PGOPTIONS} = $options // '';
	return ZkTest->new($server);
}

sub refused
{
	my ($path, $prefix) = @_;

	return
	  qr{^ERROR:  42501: permission denied for lock path "\Q$path\E"\nDETAIL:  This session is confined to what is below "\Q$prefix\E" \(zklock.path_prefix\)\.\nHINT:  Use a path below it}m;
}

for my $server ($node, $preloaded)
{
	$server->safe_psql('postgres', q(
		CREATE ROLE customer LOGIN;
		CREATE ROLE plain LOGIN;
		CREATE ROLE limited LOGIN;
		ALTER ROLE limited SET zklock.max_locks_per_backend = 1;
		ALTER ROLE customer SET zklock.path_prefix = '/a/customer';
		CREATE SCHEMA customer AUTHORIZATION customer;
		GRANT EXECUTE ON FUNCTION zk_fence(text, bigint, bigint, zk_lock_mode), zk_lock_paths(text),
			zk_fence_prune(interval), zk_lock_revoke(text), zk_leader_resign(text),
			zk_shared_count_set(text, integer) TO customer;
		CREATE FUNCTION definer(text) RETURNS boolean LANGUAGE sql
			SECURITY DEFINER SET search_path = public, pg_temp
			AS 'SELECT zk_lock_acquire($1)';
		CREATE FUNCTION lifted(text) RETURNS boolean LANGUAGE sql
			SECURITY DEFINER SET search_path = public, pg_temp
			SET zklock.path_prefix = '/shared'
			AS 'SELECT zk_lock_acquire($1)'));
}

# All functions with a path
my @calls = (
	q(zk_lock_acquire('%s')),
	q(zk_lock_acquire('%s', '0', 'shared', 'transaction')),
	q(zk_lock_acquire('%s', mode => 'simple')),
	q(zk_lock_acquire_all('{/a/customer/x, %s}')),
	q(zk_lock_guard('%s')),
	q(zk_semaphore_acquire('%s', 3)),
	q(zk_semaphore_acquire_counted('%s', '/a/customer/count')),
	q(zk_semaphore_acquire_counted('/a/customer/s', '%s')),
	q(zk_shared_count_get('%s')),
	q(zk_shared_count_set('%s', 1)),
	q(zk_lock_release('%s')),
	q(zk_semaphore_release('%s')),
	q(zk_lock_held('%s')),
	q(zk_lock_token('%s')),
	q(zk_lock_grant_number('%s')),
	q(zk_lock_fence('%s')),
	q(zk_fence('%s', 1)),
	q(zk_fence('%s', 1, 0)),
	q(zk_lock_queue('%s')),
	q(zk_lock_revoke('%s')),
	q(zk_leads('%s')),
	q(zk_leader_guard('%s')),
	q(zk_leader_resign('%s')),
	q(definer('%s')));
my @statements = ((map { "SELECT $_" } @calls), q(CALL zk_lock_wait('%s')));
my $named = $node->safe_psql('postgres', q(
	SELECT string_agg(proname, ' ' ORDER BY proname) FROM (
		SELECT DISTINCT proname FROM pg_proc
		WHERE proname ~ '^zk_' AND proargnames && '{path,paths,parent}'
		  AND proargmodes IS NULL
		  OR proname IN ('zk_lock_queue', 'zk_lock_paths')) p));
my %tried = map { /(zk_\w+)/ ? ($1 => 1) : () } @statements, 'zk_lock_paths';
is(join(' ', sort keys %tried), $named, 'each function with a path is tested');

my $owner = ZkTest->new($node);
$owner->query(q(SELECT zk_lock_acquire('/a/other')));
my $customer = as_role($node, 'customer');
for my $path ('/a/other', '/a/customer', '/a/customer2', '/a/tenan', '/a', '/other')
{
	for my $statement (@statements)
	{
		my $sql = sprintf($statement, $path);

		like($customer->query($sql), refused($path, '/a/customer'),
			"$sql is refused");
	}
}
for my $parent ('/', '/a', '/a/other')
{
	like(
		$customer->query("SELECT * FROM zk_lock_paths('$parent')"),
		refused($parent, '/a/customer'),
		"zk_lock_paths('$parent') is refused");
}
is(join(' ', $zk->children('/')), 'a zookeeper', 'refused calls create no node');
is(join(' ', $zk->children('/a')), 'other', '... at the top or below');
is(scalar $zk->children('/a/other'), 1, '... in a queue');
is($node->safe_psql('postgres', 'SELECT count(*) FROM zk_lock_fences'),
	'0', '... and no fence');

is($customer->query(q(
	SELECT zk_lock_acquire('/a/customer/x'), zk_lock_acquire('/a/customer/y/z', mode => 'simple'),
		zk_semaphore_acquire('/a/customer/s', 1), zk_lock_token('/a/customer/x') > 0,
		zk_lock_fence('/a/customer/x') > 0, definer('/a/customer/d'),
		zk_fence('/a/customer/f', 1);
	SELECT count(*) FROM zk_lock_queue('/a/customer/x');
	SELECT path FROM zk_lock_paths('/a/customer');
	SELECT zk_lock_release('/a/customer/x'))),
	"t|t|t|t|t|t|1\n1\n/a/customer/d\n/a/customer/s\n/a/customer/x\n/a/customer/y/z\nt",
	'all functions work below the prefix');
is($customer->query('SELECT zk_lock_release_all()'),
	'3', '... and the locks can be released');

# Attempts to lift the confinement

like($customer->query($_), qr/^ERROR:  42501: (permission denied to set parameter|must be superuser)/m,
	"$_ is refused")
  for (
	q(SET zklock.path_prefix = ''),
	q(SELECT set_config('zklock.path_prefix', '', false)),
	q(BEGIN; SET LOCAL zklock.path_prefix = '/'),
	q(ROLLBACK; ALTER ROLE customer SET zklock.path_prefix = ''),
	q(ALTER ROLE customer RESET zklock.path_prefix),
	q(CREATE FUNCTION customer.f() RETURNS boolean LANGUAGE sql
		SET zklock.path_prefix = '' AS $$ SELECT public.zk_lock_acquire('/a/other') $$));
$customer->query('ALTER ROLE customer RESET ALL');
$customer->query('RESET ALL; DISCARD ALL; RESET SESSION AUTHORIZATION');
is($customer->query('SHOW zklock.path_prefix'), '/a/customer', 'setting is not changed');
$customer->close;
$customer = as_role($node, 'customer');
like(
	$customer->query(q(SET zklock.path_prefix = ''; SELECT zk_lock_acquire('/other'))),
	qr{^WARNING:  42501: permission denied to set parameter "zklock.path_prefix"\n.*${\ refused('/other', '/a/customer')}}s,
	'... even if the role sets it before the library is loaded');
$customer->close;

# A client sets the value when it connects, which hides the role's own setting.
for my $value ('', '/', '/other')
{
	my $evading = as_role($node, 'customer', "-c zklock.path_prefix=$value");

	like(
		$evading->query(q(SELECT zk_lock_acquire('/other'))),
		qr/^ERROR:  42501: permission denied for lock path "\/other"\nDETAIL:  zklock.path_prefix had a value that was refused/m,
		"client that connects with '$value' gets no lock");
	like($evading->query(q(SELECT * FROM zk_lock_paths('/'))),
		qr/^ERROR:  42501: permission denied for lock path "\/"/m,
			'... and cannot read queues');
	$evading->close;

	local $ENV{PGUSER} = 'customer';
	local $ENV{PGOPTIONS} = "-c zklock.path_prefix=$value";
	my $err = '';
	IPC::Run::run(
		[
			'psql', '-XqAt', '-c', 'SHOW zklock.path_prefix',
			$preloaded->connstr('postgres')
		],
		'<', \undef, '2>', \$err);
	like($err, qr/permission denied to set parameter "zklock.path_prefix"/,
		'... and cannot connect if the library is preloaded');
}

# ... which a superuser's function with its own value does not change if it is the first
# to load the library.
my $evading = as_role($node, 'customer', '-c zklock.path_prefix=/x');
is($evading->query(q(SELECT lifted('/shared/first'))) =~ s/^[A-Z]+: .*\n//mgr,
	't', "a superuser's function with its own prefix can load the library");
like($evading->query(q(SELECT zk_lock_acquire('/other', '0'))),
	qr/^ERROR:  42501: permission denied for lock path "\/other"\nDETAIL:  zklock.path_prefix had a value that was refused/m,
	'... and does not lift the confinement of a client that has set it');
$evading->close;

$evading = as_role($node, 'plain', '-c zklock.log_level=debug1');
is($evading->query(q(SHOW zklock.log_level; SELECT zk_lock_acquire('/plain'); SHOW zklock.log_level)) =~ s/^[A-Z]+: .*\n//mgr,
	"debug1\nt\nlog", 'setting without restrictions falls back to its default');
$evading->close;
for my $rule ('hosts=127.0.0.1:2181', 'acl=world:anyone:cdrwa', 'auth_file=/tmp/mine',
	'confirm_commit=off', 'session_mode=backend', 'max_session_size=1GB')
{
	my ($name) = $rule =~ /^(\w+)/;

	$evading = as_role($node, 'plain', "-c zklock.$rule");
	like($evading->query(q(SELECT zk_lock_acquire('/other', '0'))),
		qr/^ERROR:  42501: permission denied for lock path "\/other"\nDETAIL:  zklock.$name had a value that was refused/m,
		"... but a client that sets $name gets no lock");
	$evading->close;
}

# PostgreSQL keeps the name as the client has written it. These settings are in no file of
# the server, which would have it in lower case.
for my $rule ('ACL=world:anyone:cdrwa', 'Confirm_Commit=off')
{
	my $name = lc($rule =~ s/=.*//r);

	$evading = as_role($node, 'plain', "-c ZKLOCK.$rule");
	like($evading->query(q(SELECT zk_lock_acquire('/other', '0'))),
		qr/^ERROR:  42501: permission denied for lock path "\/other"\nDETAIL:  zklock.$name had a value that was refused/m,
		"... nor one that writes $name in upper case");
	$evading->close;
}
for my $value (0, 1, 'x')
{
	my $limited = as_role($node, 'limited', "-c zklock.max_locks_per_backend=$value");

	like(
		$limited->query(q(SELECT zk_lock_acquire('/other'))),
		qr/^ERROR:  42501: permission denied for lock path "\/other"\nDETAIL:  zklock.max_locks_per_backend had a value that was refused/m,
		"... nor one that sets max_locks_per_backend to '$value'");
	$limited->close;
}
my $limited = as_role($node, 'limited');
is($limited->query(q(SELECT zk_lock_acquire('/limited/x'); SHOW zklock.max_locks_per_backend)),
	"t\n1", 'limit of a role is in effect otherwise');
like($limited->query(q(SELECT zk_lock_acquire('/limited/y'))), qr/^ERROR:  53400:/m,
	'... and enforced');
$limited->close;
my $same = as_role($node, 'customer', '-c zklock.connect_timeout=5s');
is($same->query(q(SELECT zk_lock_acquire('/a/customer/x'))),
	't', 'client can set other settings');
$same->close;

# A reload does not reveal the role's setting either: the session gets the
# value of the configuration file.
my %hidden = (
	'zklock.path_prefix' => as_role($node, 'customer', '-c zklock.path_prefix=/x'),
	'zklock.max_locks_per_backend' =>
	  as_role($node, 'limited', '-c zklock.max_locks_per_backend=9'));
$_->query('SELECT state FROM zk_session()') for values %hidden;
$node->append_conf('postgresql.conf', q(
	zklock.path_prefix = ''
	zklock.max_locks_per_backend = 0
	zklock.connect_timeout = 9s));
$node->reload;
for my $name (sort keys %hidden)
{
	my $session = $hidden{$name};

	wait_until('the files are reloaded',
		sub { $session->query('SHOW zklock.connect_timeout') eq '9s' });
	like($session->query(q(SELECT zk_lock_acquire('/other', '0'))),
		qr/^ERROR:  42501: permission denied for lock path "\/other"\nDETAIL:  \Q$name\E had a value that was refused/m,
		"session without a valid $name gets no lock after a reload");
}
is($hidden{'zklock.path_prefix'}->query(q(SELECT lifted('/shared/y'))),
	't', "... a superuser's function with its own prefix works");
like($hidden{'zklock.path_prefix'}->query(q(SELECT zk_lock_acquire('/shared/y', '0'))),
	qr/^ERROR:  42501:/m, '... and does not lift the confinement outside');
$_->close for values %hidden;

# A stored value that no check has seen is not used when it turns out to be
# invalid, and neither is the default, for superusers either. Another value takes
# its place.
$node->append_conf('postgresql.conf', q(zklock.hosts = 'nohost'));
$node->reload;

# What such a session is told
sub trouble
{
	my ($name) = @_;

	return qr/^ERROR:  55000: invalid value for parameter "zklock\.$name"\nDETAIL:  The value was stored without a check/m;
}
my $refused = ZkTest->new($node);
like($refused->query(q(SELECT zk_lock_acquire('/any', '0'))),
	trouble('hosts'), 'a superuser gets no lock from hosts that are invalid, and is told why');
is($refused->query("SET zklock.hosts = '${\ $zk->hosts}'; SELECT zk_lock_acquire('/any')"),
	't', '... but from those that are set in the session');
$refused->query('SELECT zk_lock_release_all(); RESET zklock.hosts');
like($refused->query(q(SELECT zk_lock_acquire('/any', '0'))), trouble('hosts'), '... until they are reset');
$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $zk->hosts}'");
$node->reload;
wait_until('the session has the corrected hosts',
	sub { $refused->query('SHOW zklock.hosts') eq $zk->hosts });
is($refused->query(q(SELECT zk_lock_acquire('/any'))), 't', '... or are corrected in the file');
$refused->close;

# The same of a role's prefix, also if the library is preloaded when the role connects.
$node->safe_psql('postgres', q(ALTER ROLE plain SET zklock.path_prefix = '/plain/'));
$preloaded->append_conf('postgresql.conf', q(shared_preload_libraries = ''));
$preloaded->restart;
$preloaded->safe_psql('postgres', q(ALTER ROLE plain SET zklock.path_prefix = '/plain/'));
$preloaded->append_conf('postgresql.conf', q(shared_preload_libraries = 'zklock'));
$preloaded->restart;
for my $server ($node, $preloaded)
{
	my $wrong = as_role($server, 'plain');
	like($wrong->query(q(SELECT zk_lock_acquire('/plain/x', '0'))),
		trouble('path_prefix'), 'role with an invalid prefix gets no lock');
	$wrong->close;
	$server->safe_psql('postgres', q(ALTER ROLE plain RESET zklock.path_prefix));
	ok($server->psql('postgres', q(LOAD 'zklock'; ALTER ROLE plain SET zklock.path_prefix = '/plain/')),
		'... and the prefix is checked if the library is loaded when it is stored');
}

# Code of the role that runs in the processes of others, without the role's settings

my @attempts = (
	(map { sprintf($_, '/elsewhere') } grep { !m{/a/customer} } @calls),
	q(lifted('/shared/elsewhere')), q(zk_lock_paths('/')), 'zk_lock_release_all()');
my $attempts = join(', ', map { "'" . s/'/\'\'/gr . "'" } @attempts);
my $all_refused = join('', map { "$_: 42501 cannot use ZooKeeper locks within security-restricted operation\n" }
	  @attempts) . "locks seen: 0\n";

# What the role's code has reported, without what was added by the server
sub reported
{
	my ($output) = @_;

	return join('', map { "$_\n" } $output =~ /WARNING:  (?:01000: )?attack: (.*)/g);
}

$customer = as_role($node, 'customer');
$customer->query(qq(
	SET customer.harmless = 'yes';
	CREATE FUNCTION customer.attack(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS \$\$
	DECLARE
		attempt text;
	BEGIN
		IF current_setting('customer.harmless', true) = 'yes' THEN RETURN 1; END IF;
		FOREACH attempt IN ARRAY ARRAY[$attempts] LOOP
			BEGIN
				EXECUTE 'SELECT public.' || attempt;
				RAISE WARNING 'attack: %: succeeded', attempt;
			EXCEPTION WHEN OTHERS THEN
				RAISE WARNING 'attack: %: % %', attempt, SQLSTATE, SQLERRM;
			END;
		END LOOP;
		RAISE WARNING 'attack: locks seen: %', (SELECT count(token) FROM public.zk_locks);
		RETURN 1;
	END \$\$;
	CREATE TABLE customer.t (i integer) WITH (autovacuum_enabled = off,
		autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
	INSERT INTO customer.t VALUES (1);
	CREATE INDEX i ON customer.t (customer.attack(i));
	CREATE MATERIALIZED VIEW customer.m AS SELECT customer.attack(1)));
my $super = ZkTest->new($node);
my $locks = 'SELECT path, mode, session_holds, lost FROM zk_locks ORDER BY path, mode';
$super->query(q(SELECT zk_lock_acquire_all('{/held, /elsewhere}'), zk_semaphore_acquire('/elsewhere', 2)));
my $held = $super->query($locks);
for my $statement ('ANALYZE customer.t', 'REINDEX TABLE customer.t', 'VACUUM FULL customer.t',
	'CREATE INDEX j ON customer.t (customer.attack(i + 1))', 'REFRESH MATERIALIZED VIEW customer.m')
{
	is(reported($super->query($statement)), $all_refused,
		"a superuser's $statement does not let the owner's code use locks");
}
is($super->query($locks), $held, "... the superuser's locks are not changed");
$super->query('DROP INDEX customer.j');

my $logged = -s $node->logfile;
$node->append_conf('postgresql.conf', 'autovacuum_naptime = 1s');
$node->reload;
$customer->query('ALTER TABLE customer.t SET (autovacuum_enabled = on); INSERT INTO customer.t VALUES (NULL)');
my $by_autovacuum;
wait_until('autovacuum has analyzed the table',
	sub {
		# Before PostgreSQL 15, an idle backend does not report what it inserted just now.
		$customer->query('SELECT 1');
		$by_autovacuum = reported(slurp_file($node->logfile, $logged));
		$by_autovacuum =~ /locks seen/;
	});
is($by_autovacuum =~ s/locks seen: 0\n\K.*//sr, $all_refused, '... nor does autovacuum');
$customer->query('DROP TABLE customer.t');
$_->close for $customer, $super;

# Each function with SECURITY DEFINER, also in tests and examples, sets search_path
# right behind it: its callers must not choose which functions it calls.

my ($definers, @without) = (0);
find(
	sub {
		return if !-T;
		my $text = slurp_file($_);

		while ($text =~ /^(?!\s*(?:#|--|- )).*\bSECURITY\s+DEFINER\b(?!`)(\s+SET\s+search_path = )?/gm)
		{
			$definers++;
			push @without, $File::Find::name if !defined $1;
		}
	},
	map { "$FindBin::RealBin/../../$_" } qw(README.md docs sql test));
cmp_ok($definers, '>', 4, 'there are functions with the rights of their owner');
is("@without", '', '... and each sets search_path');

# SECURITY DEFINER functions are confined, too, unless they set their own
# prefix.

$customer = as_role($node, 'customer');
is($customer->query(q(SELECT lifted('/shared/x'))),
	't', 'function with its own prefix can use paths below it');
like($customer->query(q(SELECT lifted('/a/customer/x'))),
	refused('/a/customer/x', '/shared'), '... and no others');
like($customer->query(q(SELECT zk_lock_release('/shared/x'))),
	refused('/shared/x', '/a/customer'),
		"... caller cannot release the function's lock by its path");
is($customer->query('SELECT path FROM zk_locks'), '/shared/x', '... but zk_locks shows it');
is($customer->query(q(SELECT zk_lock_release_all())),
	'1', '... and zk_lock_release_all() releases it');
$customer->close;

# The setting of a database, and its precedence

$node->safe_psql('postgres', q(ALTER DATABASE postgres SET zklock.path_prefix = '/db'));
my $plain = as_role($node, 'plain');
like($plain->query(q(SELECT zk_lock_acquire('/x'))),
	refused('/x', '/db'), 'prefix of a database is in effect');
is($plain->query(q(SELECT zk_lock_acquire('/db/x'))),
	't', '... for roles without their own');
$plain->close;
$customer = as_role($node, 'customer');
is($customer->query('SHOW zklock.path_prefix'), '/a/customer',
	'prefix of a role takes precedence');
$super = ZkTest->new($node);
like($super->query(q(SELECT zk_lock_acquire('/x'))),
	refused('/x', '/db'), "superuser is confined by the database's prefix, too");
is($super->query(q(SET zklock.path_prefix = ''; SELECT zk_lock_acquire('/x'))),
	't', '... until it resets the prefix');
for my $as ('ROLE', 'SESSION AUTHORIZATION')
{
	is($super->query("SET $as customer; SHOW zklock.path_prefix; RESET $as"),
		'', "SET $as does not change the prefix");
}
if ($node->safe_psql('postgres', 'SHOW server_version_num') >= 150000)
{
	$node->safe_psql('postgres', 'GRANT SET ON PARAMETER zklock.path_prefix TO plain');
	$plain = as_role($node, 'plain');
	is($plain->query(q(SET zklock.path_prefix = '/x'; SHOW zklock.path_prefix)),
		'/x', 'role with the privilege can set the prefix');
	$plain->close;
}
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET zklock.path_prefix');

# A confined role that can see other backends' waits may not read their queues.

my @others = map { ZkTest->new($preloaded) } 1 .. 2;
$others[0]->query(q(SELECT zk_lock_acquire('/other')));
$others[1]->start(q(SELECT zk_lock_acquire('/other')));
wait_for_queue($zk, '/other', @others);
$preloaded->safe_psql('postgres', 'GRANT pg_monitor TO customer');
$customer = as_role($preloaded, 'customer');
is($customer->query('SELECT DISTINCT path FROM zk_locks'),
	'/other', 'member of pg_monitor sees all locks of the server');
like($customer->query('SELECT count(*) FROM zk_lock_blockers'),
	refused('/other', '/a/customer'), '... but not the blockers of all waiters');
is($customer->query(q(SELECT count(*) FROM zk_lock_blockers
	WHERE path LIKE '/a/customer/%')), '0', '... only those below its prefix');
$_->close for $customer, @others;

# Invalid prefixes

for my $value ('x', '/', '/x/', '/x//y', '/x/../y', '/zookeeper')
{
	like(
		$super->query("SET zklock.path_prefix = '$value'"),
		qr/^ERROR:  22023: invalid value for parameter "zklock.path_prefix": "\Q$value\E"\nDETAIL: /m,
		"prefix '$value' is refused");
}

# The statements of the documentation

$preloaded->safe_psql('postgres', 'CREATE ROLE shop LOGIN');
for my $block (
	map { sql_blocks('docs/security.md', $_) }
	'Confine a role to a subtree', 'Where a prefix and a limit apply', 'What a role can set')
{
	my $session = as_role($preloaded,
		$block->{as} eq 'shop' ? 'shop' : 'postgres');

	run_documented($session, $_) for @{ $block->{statements} };
	$session->close;
}
my ($section) = slurp_file("$FindBin::RealBin/../../docs/security.md") =~
  /^## What a role can set\n(.*?)^\*\*Preload/ms;
my $what_is_left = $section =~ s/.*A role can set only//sr;
my %named = map { $_ => 1 } $what_is_left =~ /(zklock\.\w+)/g;
is( join(' ', sort grep { $what_is_left !~ /^SET \Q$_\E .*-- ERROR/m } keys %named),
	$preloaded->safe_psql('postgres', q(
		SELECT string_agg(name, ' ' ORDER BY name COLLATE "C") FROM pg_settings
		WHERE name LIKE 'zklock.%' AND context = 'user')),
	'page names all settings that a role can change');
my $shop = as_role($preloaded, 'shop');
like($shop->query('SELECT lock_vault()'), qr/^\d+$/,
	'documented function acquires its lock');
$shop->close;

# In another encoding, the prefix is compared in the encoding of the database.
$node->safe_psql('postgres', q(
	CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0));
$node->safe_psql('latin1', 'CREATE EXTENSION zklock');
is( $node->safe_psql('latin1', qq(
		SET client_encoding = 'UTF8';
		SET zklock.path_prefix = '/gr\xc3\xb6\xc3\x9fe';
		SELECT zk_lock_acquire('/gr\xc3\xb6\xc3\x9fe/x'))),
	't', 'prefix with other characters than ASCII matches');
my ($rc, $out, $err) = $node->psql('latin1', qq(
		SET client_encoding = 'UTF8';
		SET zklock.path_prefix = '/gr\xc3\xb6\xc3\x9fe';
		SELECT zk_lock_acquire('/gr\xc3\xb6\xc3\xb6e/x')));
like($err, qr/permission denied for lock path/, '... and excludes another path');

done_testing();
