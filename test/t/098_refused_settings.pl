# Values of settings that PostgreSQL has accepted before it knew them: if the library is
# preloaded, a server does not start with an invalid line in its files, and a session with
# one that is stored for its database or role gets no lock. 081_confinement has what a
# session does that loads the library itself.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts, shared_preload_libraries => 'zklock');
my $file = $node->data_dir . '/postgresql.conf';
my $conf = slurp_file($file);
my $lines = () = $conf =~ /\n/g;

# Replaces what a test has appended to the file.
sub configure
{
	my ($text) = @_;

	unlink($file);
	append_to_file($file, "$conf$text\n");
	return;
}

# Returns what the server has logged since the log had this size.
sub logged_since
{
	my ($size) = @_;

	return substr(slurp_file($node->logfile), $size);
}

# A server with such a line does not start, as with one of PostgreSQL's own settings.

my %invalid = (
	"zklock.hosts = 'zk1:2181;zk2:2181/locks'" => 'HINT:  Write host:port',
	"zklock.acl = 'world:anyone:all'" => 'HINT:  Write scheme:id:permissions',
	"zklock.session_mode = 'servers'" => 'HINT:  Available values: backend, server',
	"zklock.confirm_commit = 'allways'" => 'HINT:  Available values: off, lease, always',
	"zklock.on_loss = 'disconect'" => 'HINT:  Available values:',
	"zklock.path_prefix = 'shop'" => 'HINT:  Write a path',
	"zklock.advisory_path = '${\ ('/long' x 201)}'" => 'DETAIL:  With zklock.path_prefix',
	"zklock.session_timeout = '10 secs'" => 'HINT:  Valid units',
	"zklock.max_locks = 1" => 'outside the valid range',
	"zklock.auth = 'digest:a:b'" => 'HINT:  Write the credentials to a file',
	"ZKLOCK.Hosts = 'nohost'" => 'HINT:  Write host:port');
$node->stop;
for my $line (sort keys %invalid)
{
	my ($name) = $line =~ /^(\S+)/;
	my $size = -s $node->logfile;

	configure($line);
	ok(!$node->start(fail_ok => 1), "a server with $line does not start") or $node->stop;
	like(logged_since($size),
		qr/WARNING:  .*$invalid{$line}.*FATAL:  invalid value for parameter "\Q$name\E"\n[^\n]*DETAIL:  It is set in file "\Q$file\E", line ${\ ($lines + 1)}\.\n/is,
		'... and says why, and where');
}
my $size = -s $node->logfile;
configure("zklock.host = 'zk1:2181'");
ok(!$node->start(fail_ok => 1), 'a server with a setting that does not exist does not start');
like(logged_since($size),
	qr/FATAL:  unrecognized configuration parameter "zklock\.host"\n[^\n]*DETAIL:  It is set in file "\Q$file\E", line/,
	'... and says which');

$size = -s $node->logfile;
configure('');
{
	local $ENV{PGOPTIONS} = '';
	command_fails(
		[ 'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, '-o', '-c zklock.acl=world',
			'start' ],
		'a server with such an option does not start');
}
like(logged_since($size), qr/FATAL:  invalid value for parameter "zklock\.acl"\n(?![^\n]*DETAIL)/,
	'... and says that it is no line of a file');

configure("ZKLOCK.Hosts = '${\ $zk->hosts}'\nzklock.max_locks = 32");
$node->start;
my $session = ZkTest->new($node);
is($session->query(q(SELECT zk_lock_acquire('/start'); SHOW zklock.max_locks)), "t\n32",
	'a server with valid lines starts, and locks');

# A reload keeps the value that is in force.

$size = -s $node->logfile;
configure("zklock.hosts = 'zk1'\nzklock.session_mode = 'servers'\nzklock.connect_timeout = 9s");
$node->reload;
wait_until('the file is read', sub { logged_since($size) =~ /unaffected changes were applied/ });
like(logged_since($size), qr/LOG:  invalid value for parameter "zklock\.$_": "/, "a reload logs an invalid $_")
  for qw(hosts session_mode);
wait_until('the session has read it', sub { $session->query('SHOW zklock.connect_timeout') eq '9s' });
for my $who ($session, ZkTest->new($node))
{
	is($who->query(q(SHOW zklock.hosts)), $zk->hosts, '... and keeps the old one');
	is($who->query(q(SELECT zk_lock_acquire('/reload', mode => 'shared'))), 't', '... and locks');
	$who->close;
}
is($node->safe_psql('postgres',
		q(SELECT string_agg(name, ' ' ORDER BY name) FROM pg_file_settings WHERE error IS NOT NULL)),
	'zklock.hosts zklock.session_mode', '... and pg_file_settings shows which it will not start with');

# What is stored for databases and roles, before the library is preloaded

my %wrong = (
	hosts => "'nohost'",
	acl => "'world'",
	path_prefix => "'shop/'",
	advisory_path => "'advisory'",
	confirm_commit => "'on'",
	session_mode => "'servers'",
	max_locks_per_backend => "'few'",
	max_session_size => "'1700 bytes'",
	advisory_locks => "'clusters'");
configure(q(shared_preload_libraries = ''));
$node->restart;
$node->safe_psql('postgres', $_)
  for 'CREATE DATABASE other',
  map({ ("CREATE ROLE r_$_ LOGIN", "ALTER ROLE r_$_ SET zklock.$_ = $wrong{$_}") } sort keys %wrong),
  map({ "CREATE ROLE $_ LOGIN" } qw(plain everywhere upper fixed)),
  q(ALTER ROLE plain IN DATABASE other SET zklock.hosts = 'nohost'),
  q(ALTER ROLE upper SET "ZKLOCK.Hosts" = 'nohost'),
  q(ALTER ROLE fixed SET zklock.hosts = 'nohost'),
  qq(ALTER ROLE fixed IN DATABASE postgres SET zklock.hosts = '${\ $zk->hosts}');
configure('');
$node->restart;
$node->safe_psql('other', 'CREATE EXTENSION zklock; CREATE EXTENSION zklock_advisory');

# A session of a role in a database, and what its login says
sub login
{
	my ($role, $database) = @_;

	local $ENV{PGUSER} = $role;
	my $new = ZkTest->new($node);
	$new->query("\\connect $database") if $database;
	return $new;
}

sub refused
{
	my ($name) = @_;

	return qr/^ERROR:  55000: invalid value for parameter "zklock\.$name"\nDETAIL:  The value was stored without a check, and was refused in this session\.\nHINT:  As a superuser/m;
}
my $lock = q(SELECT zk_lock_acquire('/stored', '0', 'shared'));

for my $name (sort keys %wrong)
{
	my $role = login("r_$name");

	like($role->query($lock), refused($name), "a role with an invalid $name logs in, and gets no lock");
	$role->close;
}
my $reader = login('r_hosts');
like($reader->query(q(SELECT * FROM zk_lock_queue('/stored'))), refused('hosts'), '... and reads no queue');
$reader->close;
is(scalar $zk->children('/stored'), 0, '... and nothing is in ZooKeeper');

my $advisory = login('r_advisory_locks', 'other');
like($advisory->query('SELECT pg_try_advisory_lock(1)'), refused('advisory_locks'),
	'an advisory lock is not taken on this server alone');
$advisory->close;

my $plain = login('plain');
is($plain->query($lock), 't', 'a role gets a lock in a database that its invalid value is not for');
$plain->query('SELECT zk_lock_release_all()');
$plain->close;
$plain = login('plain', 'other');
like($plain->query($lock), refused('hosts'), '... and none in the other one');
$plain->close;
my $upper = login('upper');
like($upper->query($lock), refused('hosts'), 'the name may be in upper case');
$upper->close;
my $fixed = login('fixed');
is($fixed->query("$lock; SELECT zk_lock_release_all()"), "t\n1", 'a valid value that comes first counts');
$fixed->close;

# The session is told until it has a valid value, and not only until one is stored.
my $begun = login('r_hosts');
$begun->query('SELECT 1');
$node->safe_psql('postgres', "ALTER ROLE r_hosts SET zklock.hosts = '${\ $zk->hosts}'");
like($begun->query($lock), refused('hosts'), 'a corrected value is not that of a session that runs');
is($begun->query("SELECT current_setting('zklock.hosts')"), $zk->hosts, '... which has the one of the file');
$begun->close;
$begun = login('r_hosts');
is($begun->query("$lock; SELECT zk_lock_release_all()"), "t\n1", '... but of the next one');
$begun->close;
isnt($node->psql('postgres', q(ALTER ROLE r_acl SET zklock.acl = 'world')), 0,
	'now what is stored is checked');

$node->safe_psql('postgres', 'ALTER ROLE r_acl SUPERUSER');
my $super = login('r_acl');
like($super->query($lock), refused('acl'), 'a superuser gets no lock');
is($super->query(qq(SET zklock.acl = 'world:anyone:cdrwa'; $lock; SELECT zk_lock_release_all())), "t\n1",
	'... unless it sets a value');
like($super->query("RESET zklock.acl; $lock"), refused('acl'), '... until that is reset');
$super->close;

# For a database, and for all: stored while the library is not preloaded
configure(q(shared_preload_libraries = ''));
$node->restart;
$node->safe_psql('postgres', q(ALTER DATABASE other SET zklock.confirm_commit = 'on'));
$node->safe_psql('postgres', q(ALTER ROLE ALL SET zklock.session_mode = 'servers'));
configure('');
$node->restart;
my ($in_other, $anywhere) = (login('everywhere', 'other'), login('everywhere'));
like($in_other->query($lock), refused('confirm_commit'), 'an invalid value for a database refuses locks there');
like($anywhere->query($lock), refused('session_mode'), '... and one for all roles refuses them everywhere');
$_->close for $in_other, $anywhere;
$node->safe_psql('postgres', 'ALTER ROLE ALL RESET ALL; ALTER DATABASE other RESET ALL');
for my $database (qw(postgres other))
{
	$anywhere = login('everywhere', $database);
	is($anywhere->query("$lock; SELECT zk_lock_release_all()"), "t\n1", "... until it is reset: $database");
	$anywhere->close;
}

done_testing();
