# Credentials come from a file that other users cannot read. Settings that are
# stored elsewhere and could reveal credentials are refused, and the errors do
# not show the value.

use strict;
use warnings;

use POSIX qw(mkfifo);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant SECRET => 'xyzzy';

my $zk = ZkServer->new->start;

# This test checks what the settings reveal. Like any statement, one that
# contains a secret may be logged if the server is configured to log
# statements.
my %conf = (
	log_min_messages => 'debug1',
	log_statement => 'none',
	log_min_error_statement => 'panic',
	'zklock.auth_file' => 'zk.auth',
	'zklock.acl' => 'auth::cdrwa');

# The file is read when a session begins, so each backend has its own session,
# except on the last server.
my $node = new_node('main', $zk->hosts, %conf, OWN_SESSION,
	shared_preload_libraries => 'zklock');
my $file = "${\ $node->data_dir}/zk.auth";

# Writes the file anew.
sub put
{
	my ($text, $mode) = @_;

	unlink($file);
	append_to_file($file, $text);
	chmod($mode // 0600, $file) or die "$file: $!\n";
	return;
}

# Returns the result of a statement in a new backend.
sub ask
{
	my ($sql, %settings) = @_;
	my $session = ZkTest->new($node, %settings);
	my $answer = $session->query($sql);

	$session->close;
	return $answer;
}

sub logged
{
	return slurp_file($node->logfile);
}

# Queries that show all that a superuser can see of the settings.
my $everything = q(
	SELECT name, setting, reset_val FROM pg_settings WHERE name ~ 'zklock';
	SELECT name, setting FROM pg_file_settings WHERE name ~ 'zklock';
	SELECT setconfig FROM pg_db_role_setting;
	SELECT proconfig FROM pg_proc WHERE proconfig IS NOT NULL;
	SHOW zklock.auth;
	SHOW zklock.auth_file);

# Each new session reads the file.

my $lock = q(SELECT zk_lock_acquire('/secret'));

put("# for ZooKeeper\n\n \t\ndigest:app:${\ SECRET}\n");
is(ask($lock), 't', 'lock is acquired with the credentials in the file');
put("digest:app:other\r\n");
like(ask($lock), qr/^ERROR:  28000:/m, '... and refused with other credentials');
put("digest:app:${\ SECRET}");
is(ask($lock), 't', '... and a changed file is used without a reload');

my $begun = ZkTest->new($node, OWN_SESSION);
is($begun->query($lock), 't', 'a session begins with the right credentials');
put('digest:app:other');
is($begun->query(qq($lock; SELECT zk_lock_release_all(); $lock)),
	"t\n2\nt", '... and continues when the file has changed');
$begun->close;
my $session = ZkTest->new($node, 'zklock.auth' => "digest:app:${\ SECRET}");
is($session->query($lock), 't', 'zklock.auth takes precedence over the file');
$session->query(q(SELECT zk_lock_release_all(); SET zklock.auth = ''));
like($session->query($lock), qr/^ERROR:  28000:/m,
	'... unless it is empty');
append_to_file("$file.2", "digest:app:${\ SECRET}\n");
chmod(0600, "$file.2") or die "$file.2: $!\n";
$session->query(qq(SET zklock.auth_file = '$file.2'));
is($session->query($lock), 't', 'changed zklock.auth_file is used');
$session->query('RESET zklock.auth_file');
is($session->query($lock), 't', '... and the session is kept while a lock is held');
$session->close;

# Files that other users could have read, and files that are not valid

my $entry = "digest:app:${\ SECRET}\n";
my $many = '#' x 9000;
my %refused = (
	'readable for the group' => [ sub { put($entry, 0640) }, 'F0000', 'group or' ],
	'writable for all' => [ sub { put($entry, 0602) }, 'F0000', 'group or' ],
	'readable for all and owned by root' =>
	  [ sub { symlink('/etc/passwd', $file) }, 'F0000', 'group or' ],
	'a directory' => [ sub { mkdir($file, 0700) }, 'F0000', 'not a regular' ],
	'a pipe' => [ sub { mkfifo($file, 0600) }, 'F0000', 'not a regular' ],
	'missing' => [ sub { }, '58P01', 'could not open' ],
	'not readable for the server' => [ sub { put($entry, 0) }, '42501', 'could not open' ],
	'empty' => [ sub { put("# \n") }, 'F0000', 'must have one line' ],
	'of two entries' => [ sub { put($entry x 2) }, 'F0000', 'must have one line' ],
	'without a scheme' =>
	  [ sub { put("${\ SECRET}\n") }, 'F0000', 'must have one line' ],
	'too long' => [ sub { put("$many\n$entry") }, 'F0000', 'is too long' ],
	'binary' => [ sub { put("$entry\0") }, 'F0000', 'is not a text' ]);

for my $what (sort keys %refused)
{
	my ($make, $state, $why) = @{ $refused{$what} };

	unlink($file);
	$make->();
	like(
		ask($lock),
		qr/^ERROR:  $state: [^\n]*credentials file "zk.auth"[^\n]*$why|^ERROR:  $state: $why [^\n]*"zk.auth"/m,
		"a file that is $what is refused");
	rmdir($file) if -d $file && !-l $file;
}
put($entry);

# The value is refused where a setting would be stored and shown.

for my $where (
	'ALTER SYSTEM SET',
	'ALTER DATABASE postgres SET',
	'ALTER ROLE CURRENT_USER SET',
	'ALTER ROLE ALL SET',
	q(CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1' SET))
{
	my $answer = ask("$where zklock.auth = 'digest:app:${\ SECRET}'");

	like(
		$answer,
		qr/^ERROR:  55P02:.*\nDETAIL: .*\nHINT: .*zklock.auth_file/m,
		"$where is refused");
	unlike($answer, qr/${\ SECRET}/, '... and the error does not show the value');
}
unlike(ask($everything), qr/${\ SECRET}/, 'no view shows the value');

# An access control list can contain an unsalted hash of a password.
{
	$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN');
	local $ENV{PGUSER} = 'plain';
	like(ask('SHOW zklock.acl'), qr/^ERROR:  42501: /m,
		'zklock.acl cannot be read by all roles');
	is(ask(q(SELECT count(*) FROM pg_settings WHERE name = 'zklock.acl' AND setting <> '')),
		0, '... in any view');
}

is( ask(qq(SELECT set_config('zklock.auth', 'digest:a:${\ SECRET}', true))),
	'********', 'zklock.auth can be set within a transaction');

# In a configuration file, the value is refused at a reload.
$node->append_conf('postgresql.conf', "zklock.auth = 'digest:app:${\ SECRET}'");
$node->reload;
wait_until('the file is read',
	sub { logged() =~ /LOG:  parameter "zklock.auth" can be set/ });
is(ask('SHOW zklock.auth'), '', 'zklock.auth in postgresql.conf has no effect');
ok(unlink($file), 'credentials file is removed');
like(ask($lock), qr/^ERROR:  58P01:/m, '... and no lock can be acquired');
$node->stop;
ok(!$node->start(fail_ok => 1), '... and the server does not start with it');
like(logged(), qr/WARNING:  parameter "zklock.auth" can be set.*FATAL:  invalid value for parameter "zklock.auth"/s,
	'... and says why');
unlike(logged(), qr/${\ SECRET}/, 'the log does not show the value');

# On a server without the library in shared_preload_libraries, the setting is
# unknown until the library is loaded. zklock cannot prevent the server from
# logging it before that.
my $late = new_node('late', $zk->hosts, %conf, OWN_SESSION,
	'zklock.auth' => "digest:app:${\ SECRET}");
$session = ZkTest->new($late);
my $answer = $session->query(q(LOAD 'zklock'));
like(
	$answer,
	qr/^WARNING:  55P02: parameter "zklock.auth" can be set/m,
	'zklock.auth is refused when the library is loaded');
unlike($answer, qr/${\ SECRET}/, '... and the error does not show the value');
is($session->query('SHOW zklock.auth'), '', '... and its value is reset');
$session->close;

# In the server's session, backends get the error about the file, and the
# session begins as soon as the file is valid.
$node = new_node('shared', $zk->hosts, %conf, 'zklock.session_mode' => 'server');
$file = "${\ $node->data_dir}/zk.auth";
like(
	ask($lock),
	qr/^ERROR:  58P01: could not open .*"zk\.auth"/m,
	'backend gets an error about a missing file from the worker');
put($entry, 0640);
my $worker = $node->safe_psql('postgres',
	q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock worker'));
my @open;
for my $try (1, 2)
{
	like(ask($lock), qr/^ERROR:  F0000: credentials file "zk\.auth".*group or/m,
		'... and about a file that others could have read');
	push @open, scalar(() = glob("/proc/$worker/fd/*"));
}
is($open[1], $open[0], '... and the worker closes the file each time');
put($entry);
is(ask($lock), 't', 'lock is acquired as soon as the file is valid');

done_testing();
