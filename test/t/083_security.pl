# The statements of docs/security.md: privileges, access control lists with
# real passwords, another password, and copies of a database. The intruder is a client that
# knows the protocol and has no password.
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use Docs;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Template;
use Test::More;
use ZkCli;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(container_check => 100)->start;
my $hosts = $zk->hosts;
my $page = slurp_file("$FindBin::RealBin/../../docs/security.md");

# Privileges

my $bare = PostgreSQL::Test::Cluster->new('bare');
init_node($bare);
$bare->append_conf('postgresql.conf', "zklock.hosts = '$hosts'");
$bare->start;
$bare->safe_psql('postgres', 'CREATE ROLE shop LOGIN; CREATE ROLE other LOGIN');
my %role = ('shop' => 'shop', 'somebody else' => 'other');
for my $block (sql_blocks('docs/security.md', 'Who may lock'))
{
	local $ENV{PGUSER} = $role{ $block->{as} } // 'postgres';
	my $session = ZkTest->new($bare);

	run_documented($session, $_) for @{ $block->{statements} };
	$session->close;
}
{
	local $ENV{PGUSER} = 'shop';
	my $session = ZkTest->new($bare);

	like($session->query(q(SELECT * FROM locks.zk_lock_queue('/x'))),
		qr/^ERROR:  42501:/m, 'revoked function cannot be called');
	like($session->query("SELECT locks.$_"), qr/^ERROR:  42501:/m,
		"$_ is not granted to PUBLIC")
	  for q(zk_fence('/x', 1)), q(zk_fence_prune('1 day')),
	  'zk_lock_stats_reset()', 'zk_lock_paths()', q(zk_lock_revoke('/x')),
	  q(zk_shared_count_set('/x', 1)), q(zk_source_forget('primary')),
	  q(zk_source_add('x', '', '', 'shop'));
	$session->close;
}
$bare->safe_psql('postgres', q(DROP EXTENSION zklock; CREATE EXTENSION zklock));
$bare->safe_psql('postgres', $1) if $page =~ /`(ALTER EXTENSION [^`]*)`/s;
is($bare->safe_psql('postgres', q(
	SELECT locks.zk_lock_acquire('/moved'), locks.zk_lock_fence('/moved') > 0,
		locks.zk_lock_release('/moved'))), 't|t|t',
			'extension works after its schema was changed');

# A view calls a function for a role that may not look it up in its schema.
$bare->safe_psql('postgres', q(
	CREATE VIEW holders AS SELECT state FROM locks.zk_lock_queue('/moved');
	GRANT SELECT ON holders TO other));
{
	local $ENV{PGUSER} = 'other';
	my $session = ZkTest->new($bare);

	is($session->query('SELECT count(*) < 2 FROM holders'), 't',
		'zk_lock_queue() can be called through a view');
	$session->close;
}

# A root of its own

my ($own_part) = $page =~ /^## A ZooKeeper that others use\n(.*?)^## /ms;
my ($make) = $own_part =~ /^```sh\n(.*?)^```$/ms;
my ($chroot) = $own_part =~ m{^zklock.hosts = '[^/']*(/\w+)'$}m;

zkcli($zk, split(/\n/, $make));
my $confined = ZkTest->new(new_node('confined', "$hosts$chroot"));
run_documented($confined, $_)
  for map { @{ $_->{statements} } }
  sql_blocks('docs/security.md', 'A ZooKeeper that others use');
ok(!grep({ $_ eq 'controller' } $zk->children('/')),
	'nodes of other applications are not reached');
is_deeply([ $zk->children($chroot) ], ['controller'],
	'... nodes are created below the own root');
$confined->close;

# Access control lists

my $secrets = PostgreSQL::Test::Utils::tempdir();
my ($entry) = $page =~ /a line `([^`]*)`/;
my ($auth_file, $acl) =
  $page =~ /^zklock.auth_file = '(.*)'\nzklock.acl = '(.*)'$/m;
my ($cli) = $page =~ /^## ZooKeeper's access control\n.*?^```sh\n(.*?)^```$/ms;

sub put_file
{
	my ($file, $text) = @_;

	append_to_file($file, "$text\n");
	chmod(0600, $file) or die "$file: $!\n";
	return;
}

like($auth_file, qr{^/}, 'documented path of the file is absolute');
put_file("$secrets/auth", $entry);
my $node = new_node(
	'main', $hosts,
	'zklock.auth_file' => "$secrets/auth",
	'zklock.acl' => $acl);
my $holder = ZkTest->new($node);

# Returns what a client without a password can do to a held lock.
sub outsider
{
	my ($path) = @_;
	my $client = ZkClient->new($hosts);
	my @names = map { s/.*://r } split(/ /, $holder->query(
			"SELECT coalesce(string_agg(node, ' '), 'none') FROM zk_locks WHERE path = '$path'"));
	my %does = (
		list => sub { $client->children($path) },
		read => sub { $client->get("$path/$names[0]") },
		delete => sub { $client->delete("$path/$names[0]") },
		'get ahead' =>
		  sub { $client->create("$path/_c_x-lock-0000000000", '', ZkClient::EPHEMERAL) });
	my @can =
	  grep { eval { $does{$_}->(); 1 } } 'list', 'read', 'get ahead', 'delete';

	$client->close;
	return join(', ', @can);
}

zkcli($zk, split(/\n/, $cli));
is($holder->query(q(SELECT zk_lock_acquire('/shop/product_42'))),
	't', 'lock is acquired below a closed path');
is(outsider('/shop/product_42'),
	'', '... and a client without a password can do nothing to it');
is($holder->query(q(SELECT zk_lock_acquire('/new/path'))),
	't', 'lock is acquired on a new path');
is(outsider('/new/path'), '', '... and a client without a password can do nothing to it');
my $client = ZkClient->new($hosts);
ok(!eval { $client->delete('/shop/product_42'); 1 }, '... or delete its path');
$holder->query(q(SELECT zk_lock_release_all()));

my ($open) = map { $_->[0] } map { @{ $_->{statements} } }
  sql_blocks('docs/security.md', q(ZooKeeper's access control));
is($holder->query($open), '', "... the page's query finds no open path");

# A path that existed before without an access control list
$client->create('/open', '');
$client->create('/open/product', '');
for my $confirm ('lease', 'always')
{
	my $next = ZkTest->new($node, OWN_SESSION);

	$holder->query("SET zklock.confirm_commit = '$confirm'");
	is($holder->query(q(BEGIN; SELECT zk_lock_guard('/open/product') > 0)),
		't', 'lock is acquired on an open path');
	$next->start(q(SELECT zk_lock_acquire('/open/product')));
	wait_until('the next waiter has come',
		sub { $zk->children('/open/product') == 2 });
	is($holder->query($open), '/open/product', "... the page's query finds it");
	is(outsider('/open/product'),
		'list, get ahead, delete', '... a client without a password can delete its node');
	is($next->result, 't', '... and the next waiter gets the lock');
	like($holder->query('COMMIT'),
		$confirm eq 'lease' ? qr/^\z/ : qr/^ERROR:  40001: lock on "\/open\/product" was lost/m,
		"... the commit fails if it asks ZooKeeper ($confirm)");
	$next->close;
}
$holder->query('RESET zklock.confirm_commit');
wait_until('the lock is free', sub { !$zk->children('/open/product') });
zkcli($zk, map { s{/shop}{/open}r } grep { !/^create/ } split(/\n/, $cli));
is($holder->query(q(SELECT zk_lock_acquire('/open/product'))),
	't', 'lock is acquired after the path was closed');
is(outsider('/open/product'),
	'', '... and a client without a password can do nothing to it');
is($holder->query($open), '', "... the page's query does not find it any more");

# The access control list of the parent of a lock's nodes counts.
$client->create($_, '') for qw(/half /half/s /half/s/locks /half/t /half/t/leases /half/x);
is($holder->query(q(
	SELECT zk_semaphore_acquire('/half/s', 1), zk_semaphore_acquire('/half/t', 1),
		zk_semaphore_acquire('/new/u', 1), zk_lock_acquire('/half/x', mode => 'shared'),
		zk_lock_acquire('/half/y', mode => 'simple'), zk_lock_acquire('/new/z', mode => 'simple'))),
	't|t|t|t|t|t', 'locks of each kind are acquired');
wait_until('ZooKeeper has removed empty containers', sub { !$zk->exists('/new/u/locks') });
is($holder->query(q(
	SELECT path, open FROM zk_lock_paths('/half') UNION ALL
	SELECT path, open FROM zk_lock_paths('/new'))),
	"/half/s|t\n/half/t|t\n/half/x|t\n/half/y|t\n/new/u|f\n/new/z|f",
	'... zk_lock_paths() shows which are open');
is( ZkTest->new($node, 'zklock.auth_file' => '')
	  ->query(q(SELECT path, kind, open FROM zk_lock_paths('/half') WHERE path ~ '/(leases|t)$')),
	"/half/s/leases||\n/half/t|semaphore|t",
		'session without credentials sees as much as it may read');
$holder->query(q(SELECT zk_lock_release_all()));
$client->close;

my $guesser =
  ZkTest->new($node, 'zklock.auth' => $entry =~ s/secret/guess/r);
like($guesser->query(q(SELECT zk_lock_acquire('/shop/product_42', '1min'))),
	qr/^ERROR:  28000:.*a wrong password of scheme "digest" is not refused before/ms,
	'wrong password is refused at a closed path');

# Another password

my ($renewal) = $page =~ /^### Another password\n(.*?)^## /ms;
my ($hashing, $admitting) = $renewal =~ /^```sh\n(.*?)^```$/gms;
my ($both) = $renewal =~ /^zklock.acl = '(.*)'$/m;
my ($own) = $renewal =~ /`zklock.acl` to\s+`(auth::\w+)`/;
my ($old_user, $next_user) = ($entry =~ s/^digest://r, $renewal =~ /`addauth\s+digest\s+([^`]+)`/);
my @hashes = map { my $command = $hashing =~ s/shop:\w+/$_/r; `$command` =~ s/\n//r } $old_user, $next_user;

is($both, join(',', map { "digest:shop:$_:cdrwa" } @hashes), 'the lists of the page have the hashes of both passwords');

# Changes a setting, and waits until another session has begun.
sub renew
{
	my ($name, $value) = @_;
	my $session = ZkTest->new($node);
	my $id = sub {
		$session->query(q(SELECT zk_lock_acquire('/shop/old'), zk_lock_release('/shop/old')));
		return $session->query('SELECT session_id FROM zk_session()');
	};
	my $before = $id->();

	$node->append_conf('postgresql.conf', "$name = '$value'");
	$node->reload;
	wait_until("$name is in force", sub { $id->() ne $before });
	$session->close;
	return;
}

# Returns what a session with these credentials gets: t or f, or the code of the error.
sub lock_as
{
	my ($user, $path) = @_;
	my $session = ZkTest->new($node, 'zklock.auth' => "digest:$user", 'zklock.try_timeout' => '1min');
	my $answer = $session->query("SELECT zk_lock_acquire('$path', '0')");

	$session->close;
	return $answer =~ /^ERROR:  (\w+):/ ? $1 : $answer;
}

zkcli($zk, "addauth digest $old_user", 'create /shop/old', "setAcl /shop/old $own");
my $list = zkcli($zk, "addauth digest $old_user", 'getAcl /shop/old');
like($list, qr/'digest,'shop:\Q$hashes[0]\E$/m, 'getAcl shows a list to a user whom it admits');
like($list, qr/: cdrwa$/m, '... with the permissions');
unlike(eval { zkcli($zk, 'getAcl /shop/old') } // $@, qr/: cdrwa$/m, '... and not without addauth');
$holder->close;
is(lock_as($next_user, '/shop/old'), '28000', 'with another password, zklock is another user');

renew('zklock.acl' => $both);
$holder = ZkTest->new($node);
is($holder->query(q(SELECT zk_lock_acquire('/shop/new'))), 't', 'a lock on a new path, with the list of both');
is(join(' ', map { lock_as($next_user, $_) } '/shop/new', '/shop/old'), 'f 28000', '... admits the other user');
zkcli($zk, split(/\n/, $admitting));
is(join(' ', map { lock_as($next_user, $_) } '/shop/new', '/shop/old'), 'f t', '... and then existing paths do so, too');
is($holder->query(q(SELECT zk_lock_release('/shop/new'))), 't', 'the lock was held meanwhile');

put_file("$secrets/next", "digest:$next_user");
renew('zklock.auth_file' => "$secrets/next");
is($holder->query(q(SELECT zk_lock_acquire('/shop/old'), zk_lock_acquire('/shop/new'), zk_lock_release_all())),
	't|t|2', 'locks are taken with the other password');
is(lock_as($old_user, '/shop/old'), 't', '... and with the former one');

renew('zklock.acl' => $own);
zkcli($zk, "addauth digest $next_user", $admitting =~ s/^setAcl .*\K\Q$both\E/$own/mr =~ s/^addauth.*\n//mr);
is($holder->query(q(SELECT zk_lock_acquire('/shop/old'), zk_lock_acquire('/shop/new'), zk_lock_release_all())),
	't|t|2', 'locks are taken');
is(lock_as($old_user, '/shop/old'), '28000', '... and the former password is refused');

# Servers that require credentials

my $required = qr/^ERROR:  28000: ZooKeeper requires authentication\nHINT:  Set zklock.auth_file\./m;
my $refused = qr/^ERROR:  28000: ZooKeeper refused the authentication\nHINT:  Check zklock.auth_file\.  SASL/m;
my ($enforced) = $page =~ /^## Servers that demand.*?^```properties\n(.*?)^```$/ms;
my %demand = (
	'as documented' => { $enforced =~ /^(.*)=(.*)$/mg },
	'for SASL' => {
		sessionRequireClientSASLAuth => 'true',
		'authProvider.1' => 'org.apache.zookeeper.server.auth.SASLAuthenticationProvider'
	});
for my $which (sort keys %demand)
{
	my $strict = ZkServer->new(config => $demand{$which})->start;
	my $server = new_node("strict_$which" =~ s/ /_/gr, $strict->hosts);
	my $try = q(SELECT zk_lock_acquire('/a', '1min'));

	like(ZkTest->new($server)->query("$try; $try"), qr/$required.*$required/s,
		"server that requires credentials $which refuses each attempt without");
	like(ZkTest->new($server)->query(q(SELECT * FROM zk_lock_queue('/a'))), $required,
		'... and a read of a queue');
	$server->append_conf('postgresql.conf', "zklock.auth_file = '$secrets/auth'");
	$server->restart;
	my $known = ZkTest->new($server);
	$which =~ /SASL/
	  ? like($known->query("$try; $try"), qr/$refused.*$refused/s, '... and other credentials')
	  : is($known->query($try), 't', '... and accepts the right ones');
	$server->stop;
	$strict->stop;
}

# A copy of the server

sub copy_of
{
	my ($original, $name, %conf) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);

	$copy->init_from_backup($original, 'backup');
	$copy->append_conf('postgresql.auto.conf', "$_ = '$conf{$_}'") for sort keys %conf;
	$copy->start;
	return $copy;
}

my $lock = q(SELECT zk_lock_acquire('/shop/product_42', '5s'));

$node->append_conf('postgresql.conf', 'max_wal_senders = 2');
$node->append_conf('postgresql.conf', 'wal_level = replica');
$node->restart;
is($node->safe_psql('postgres', q(SELECT zk_lock_acquire('/shop/f'), zk_lock_fence('/shop/f') > 0)),
	't|t', 'fence is set');
$node->backup('backup');
$holder = ZkTest->new($node);
$holder->query(q(SELECT zk_lock_acquire('/shop/product_42')));
my $copy = copy_of($node, 'copy');
is($copy->safe_psql('postgres', $lock),
	'f', "copy is excluded by the original's locks");
is($copy->safe_psql('postgres', q(SELECT zk_lock_acquire('/shop/product_7'))),
	't', '... and can acquire locks itself');

rename("$secrets/next", "$secrets/elsewhere") or die "$secrets/next: $!\n";
$copy->restart if server_mode();    # the worker has read the file
like(
	ZkTest->new($copy)->query($lock),
	qr/^ERROR:  58P01: could not open credentials file/m,
	'... but not without the credentials file');
my $anonymous = ZkTest->new($copy, 'zklock.auth_file' => '');
like($anonymous->query(q(SELECT zk_lock_acquire('/shop/product_42', '1min'))),
	qr/^ERROR:  28000:/m, '... or without credentials');
$copy->stop;

my $test_zk = ZkServer->new->start;
put_file("$secrets/next", 'digest:test:test');
$copy = copy_of($node, 'copy2', 'zklock.hosts' => $test_zk->hosts);
my $session = ZkTest->new($copy);
is($session->query($lock), 't', 'copy with another ZooKeeper is independent');
is($session->query(q(SELECT zk_lock_acquire('/shop/f'))),
	't', 'lock that the original has fenced is acquired');
like($session->query(q(SELECT zk_lock_fence('/shop/f'))), qr/^ERROR:  55000:/m,
	'... and cannot be fenced in the copy');
run_documented($session, $_)
  for map { @{ $_->{statements} } } sql_blocks('docs/security.md', 'Copies of a database');
is($session->query(q(SELECT zk_lock_fence('/shop/f') > 0)),
	't', '... until the fences are deleted');

done_testing();
