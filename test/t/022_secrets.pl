# Credentials: they come from a file that nobody else can read, and wherever
# else they could be left lying about they are refused, without being repeated.

use strict;
use warnings;

use POSIX qw(mkfifo);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant SECRET => 'xyzzy';

my $zk = ZkServer->new->start;

# What is to be seen is what the settings give away. That a statement which has
# a secret in it can be logged is nothing special.
my %conf = (
	log_min_messages => 'debug1',
	log_statement => 'none',
	log_min_error_statement => 'panic',
	'zklock.auth_file' => 'zk.auth',
	'zklock.acl' => 'auth::cdrwa');

# The file is read when a session begins: that is to be each backend's own, but for
# the last server.
my $node = new_node('main', $zk->hosts, %conf, OWN_SESSION,
	shared_preload_libraries => 'zklock');
my $file = "${\ $node->data_dir}/zk.auth";

# Makes the file anew.
sub put
{
	my ($text, $mode) = @_;

	unlink($file);
	append_to_file($file, $text);
	chmod($mode // 0600, $file) or die "$file: $!\n";
	return;
}

# What a backend says that has just begun.
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

# What can be seen of a setting, by those who can see most.
my $everything = q(
	SELECT name, setting, reset_val FROM pg_settings WHERE name ~ 'zklock';
	SELECT name, setting FROM pg_file_settings WHERE name ~ 'zklock';
	SELECT setconfig FROM pg_db_role_setting;
	SELECT proconfig FROM pg_proc WHERE proconfig IS NOT NULL;
	SHOW zklock.auth;
	SHOW zklock.auth_file);

# The file is used by each session that begins.

my $lock = q(SELECT zk_lock_acquire('/secret'));

put("# for ZooKeeper\n\n \t\ndigest:app:${\ SECRET}\n");
is(ask($lock), 't', 'with the credentials in the file a lock can be had');
put("digest:app:other\r\n");
like(ask($lock), qr/^ERROR:  28000:/m, '... and with others not');
put("digest:app:${\ SECRET}");
is(ask($lock), 't', '... as soon as the file has them, without a reload');

my $begun = ZkTest->new($node, OWN_SESSION);
is($begun->query($lock), 't', 'one has a session that has begun');
put('digest:app:other');
is($begun->query(qq($lock; SELECT zk_lock_release_all(); $lock)),
	"t\n2\nt", '... and goes on with it when the file has others');
$begun->close;
my $session = ZkTest->new($node, 'zklock.auth' => "digest:app:${\ SECRET}");
is($session->query($lock), 't', 'zklock.auth comes before the file');
$session->query(q(SELECT zk_lock_release_all(); SET zklock.auth = ''));
like($session->query($lock), qr/^ERROR:  28000:/m,
	'... until it is empty again');
append_to_file("$file.2", "digest:app:${\ SECRET}\n");
chmod(0600, "$file.2") or die "$file.2: $!\n";
$session->query(qq(SET zklock.auth_file = '$file.2'));
is($session->query($lock), 't', '... as another file is, once it is set');
$session->query('RESET zklock.auth_file');
is($session->query($lock), 't', '... and kept while a lock is held');
$session->close;

# A file that others could have read, or that is no such file.

my $entry = "digest:app:${\ SECRET}\n";
my $many = '#' x 9000;
my %refused = (
	'for a group to read' => [ sub { put($entry, 0640) }, 'F0000', 'group or' ],
	'for all to write' => [ sub { put($entry, 0602) }, 'F0000', 'group or' ],
	'root\'s, for all to read' =>
	  [ sub { symlink('/etc/passwd', $file) }, 'F0000', 'group or' ],
	'a directory' => [ sub { mkdir($file, 0700) }, 'F0000', 'not a regular' ],
	'a pipe' => [ sub { mkfifo($file, 0600) }, 'F0000', 'not a regular' ],
	'not there' => [ sub { }, '58P01', 'could not open' ],
	'not ours to read' => [ sub { put($entry, 0) }, '42501', 'could not open' ],
	'empty' => [ sub { put("# \n") }, 'F0000', 'must have one line' ],
	'of two minds' => [ sub { put($entry x 2) }, 'F0000', 'must have one line' ],
	'without a scheme' =>
	  [ sub { put("${\ SECRET}\n") }, 'F0000', 'must have one line' ],
	'too long' => [ sub { put("$many\n$entry") }, 'F0000', 'is too long' ],
	'not text' => [ sub { put("$entry\0") }, 'F0000', 'is not a text' ]);

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

# Where a setting is kept, and shown, the value is refused.

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
	unlike($answer, qr/${\ SECRET}/, '... without a word of the value');
}
unlike(ask($everything), qr/${\ SECRET}/, 'it is to be seen nowhere');

# An access control list can have a hash in it, without salt, of a password.
{
	$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN');
	local $ENV{PGUSER} = 'plain';
	like(ask('SHOW zklock.acl'), qr/^ERROR:  42501: /m, 'nor is the access control list, for all');
	is(ask(q(SELECT count(*) FROM pg_settings WHERE name = 'zklock.acl' AND setting <> '')),
		0, '... anywhere');
}

is( ask(qq(SELECT set_config('zklock.auth', 'digest:a:${\ SECRET}', true))),
	'********', 'within a transaction it can be set');

# In a configuration file it is refused when that is read again.
$node->append_conf('postgresql.conf', "zklock.auth = 'digest:app:${\ SECRET}'");
$node->reload;
wait_until('the file is read',
	sub { logged() =~ /LOG:  parameter "zklock.auth" can be set/ });
is(ask('SHOW zklock.auth'), '', 'in postgresql.conf it does not count');
ok(unlink($file), 'there is no other');
like(ask($lock), qr/^ERROR:  58P01:/m, '... so that no lock can be had');
put($entry);
$node->restart;
like(logged(), qr/WARNING:  parameter "zklock.auth" can be set/,
	'... nor when the server starts with it');
is(ask('SHOW zklock.auth'), '', '... which it does');
unlike(logged(), qr/${\ SECRET}/, 'it is in no line of the log');

# A server that does not know yet whose setting that is. (What it logs of it
# then is out of our hands.)
my $late = new_node('late', $zk->hosts, %conf, OWN_SESSION,
	'zklock.auth' => "digest:app:${\ SECRET}");
$session = ZkTest->new($late);
my $answer = $session->query(q(LOAD 'zklock'));
like(
	$answer,
	qr/^WARNING:  55P02: parameter "zklock.auth" can be set/m,
	'it is refused as soon as the library is loaded');
unlike($answer, qr/${\ SECRET}/, '... without a word of the value');
is($session->query('SHOW zklock.auth'), '', '... and forgotten');
$session->close;

# The server's own session: its backends are told what is wrong with the file, and
# it has one as soon as that is mended.
$node = new_node('shared', $zk->hosts, %conf, 'zklock.session' => 'server');
$file = "${\ $node->data_dir}/zk.auth";
like(
	ask($lock),
	qr/^ERROR:  58P01: could not open .*"zk\.auth"/m,
	'in the session of a server, too, nothing goes without the file');
put($entry, 0640);
my $worker = $node->safe_psql('postgres',
	q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock worker'));
my @open;
for my $try (1, 2)
{
	like(ask($lock), qr/^ERROR:  F0000: credentials file "zk\.auth".*group or/m,
		'... nor if others could have read it');
	push @open, scalar(() = glob("/proc/$worker/fd/*"));
}
is($open[1], $open[0], '... though it is closed each time');
put($entry);
is(ask($lock), 't', '... but as soon as it has the credentials');

done_testing();
