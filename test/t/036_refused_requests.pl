# Errors for requests that ZooKeeper refuses: they name the node, the request
# and the setting of the credentials.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(config => { enforceQuota => 'true' })->start;
my $node = new_node('main', $zk->hosts);
my $file = "${\ $node->data_dir}/zk.auth";

append_to_file($file, "digest:app:right\n");
chmod(0600, $file) or die "$file: $!\n";

# Returns the result of a request for a lock in a session with these settings.
sub try
{
	my ($path, %settings) = @_;
	my $session = ZkTest->new($node, %settings);
	my $answer = $session->query("SELECT zk_lock_acquire('$path', '1 minute')");

	$session->close;
	return $answer;
}

# The error for a request that an access control list refuses
sub refusal
{
	my ($path, $request, $credentials) = @_;

	return qr/^ERROR:  28000: could not lock "$path"\nDETAIL:  ZooKeeper refused to $request: not authenticated.  The session has $credentials\.\nHINT:  .*zklock.acl/m;
}

$zk->create('/refuse', '');
my %mine = ('zklock.auth_file' => 'zk.auth', 'zklock.acl' => 'auth::cdrwa');

is(try('/refuse/mine', %mine), 't', 'lock is acquired with the credentials');
like(try('/refuse/mine'),
	refusal('/refuse/mine', 'create a node below "/refuse/mine"',
		'no credentials'),
	'error says that the session has no credentials');
like(try('/refuse/mine', 'zklock.auth' => 'digest:app:wrong'),
	refusal('/refuse/mine', 'create a node below "/refuse/mine"',
		'the credentials in zklock.auth'),
	'error names the setting of a wrong password');
like(
	try('/refuse/mine', 'zklock.auth' => 'digest:app:wrong'),
	qr/HINT:  .*a wrong password of scheme "digest" is not refused before/,
	'... and the hint says why it is found only now');
like(try('/refuse/mine', %mine, 'zklock.auth' => 'nosuch:right'),
	qr/^ERROR:  28000: ZooKeeper refused the authentication\nHINT:  Check zklock.auth\./m,
	'error for an unknown scheme in zklock.auth');
append_to_file("$file.2", "nosuch:right\n");
chmod(0600, "$file.2") or die "$file.2: $!\n";
like(try('/refuse/mine', 'zklock.auth_file' => 'zk.auth.2'),
	qr/^ERROR:  28000: ZooKeeper refused the authentication\nHINT:  Check zklock.auth_file\./m,
	'error for an unknown scheme in the file');

like(try('/refuse/mine/a/b/c'),
	refusal('/refuse/mine/a/b/c', 'create "/refuse/mine/a"',
		'no credentials'),
	'error for a missing parent that may not be created');
like(try('/refuse/mine/a/b/c', 'zklock.hosts' => $zk->hosts . '/nowhere'),
	qr/^ERROR:  42704: .*\nHINT: .* zklock.hosts must exist/m,
	'error for a missing root differs');
like(try('/refuse/mine/a/b/c', 'zklock.hosts' => $zk->hosts . '/refuse/mine'),
	refusal('/refuse/mine/a/b/c', 'create "/refuse"', 'no credentials'),
	'error for an existing root is that of the parent');

like(try('/refuse/list', 'zklock.acl' => 'world:anyone:cdwa'),
	refusal('/refuse/list', 'list the children of "/refuse/list"',
		'no credentials'),
	'error for children that may not be listed');

my $holder = ZkTest->new($node);
$holder->query(q(SELECT zk_lock_acquire('/refuse/read', mode => 'shared')));
$holder->query(q(SELECT zk_lock_release_all()));
$holder->query(q(SET zklock.acl = 'world:anyone:d'));
is($holder->query(q(SELECT zk_lock_acquire('/refuse/read'))),
	't', "holder's node may not be read");
my ($name) = $zk->children('/refuse/read');
like(try('/refuse/read'),
	refusal('/refuse/read', qq(read "/refuse/read/$name"), 'no credentials'),
	'waiter gets an error with the name of that node');

# Deletion continues in the background. A refusal is logged.
$holder = ZkTest->new($node, 'zklock.acl' => 'world:anyone:crwa');
$holder->query(q(SELECT zk_lock_acquire('/refuse/delete')));
($name) = $zk->children('/refuse/delete');
$holder->query(q(SELECT zk_lock_release('/refuse/delete')));
ok( wait_until(
		'the refusal is logged',
		sub {
			$holder->query(q(SELECT state FROM zk_session()));
			slurp_file($node->logfile) =~
			  m{LOG:  ZooKeeper client: zklock: ZooKeeper refused to delete .* \(not authenticated\): /refuse/delete/$name\n};
		}),
	'log names a node that may not be deleted');
$holder->close;
wait_until('the node is gone', sub { !$zk->children('/refuse/delete') });

# A quota of two nodes, including /refuse/quota
is(try('/refuse/quota/lock'), 't', 'lock is acquired below a quota');
$zk->create('/zookeeper/quota/refuse', '');
$zk->create('/zookeeper/quota/refuse/quota', '');
$zk->create('/zookeeper/quota/refuse/quota/zookeeper_limits',
	'count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2');
$zk->create('/zookeeper/quota/refuse/quota/zookeeper_stats',
	'count=2,bytes=0');
like(
	try('/refuse/quota/lock'),
	qr/^ERROR:  53400: could not lock "\/refuse\/quota\/lock"\nDETAIL:  ZooKeeper refused to create a node below "\/refuse\/quota\/lock": a quota is exceeded\.\nHINT: /m,
	'... error after the quota is used up by the lock');
like(
	try('/refuse/quota/more/lock'),
	qr/^ERROR:  53400: .*\nDETAIL:  ZooKeeper refused to create "\/refuse\/quota\/more": a quota/m,
	'... error after the quota is used up by its parents');

# Nodes of other clients in the queue: one with the same sequence number as
# ours, and one with a name that is too long to be watched. A long name that
# does not belong to a contender is ignored.
my $client = ZkClient->new($zk->hosts);
$client->create($_, '')
  for '/refuse/taken', '/refuse/taken/lock-0000000001', '/refuse/long';
like(try('/refuse/taken'),
	qr{^ERROR:  54000: the sequence numbers of lock path "/refuse/taken" are used up\nHINT:  Let all}m,
	'error for a sequence number that is in use');
$client->create('/refuse/long/' . 'x' x $_, '') for 250, 300;
is(try('/refuse/long'), 't', 'long name of another node is ignored');
$client->create('/refuse/long/' . 'x' x 250 . 'lock-0000000000', '');
like(try('/refuse/long'),
	qr{^ERROR:  54000: a node below lock path "/refuse/long" has too long a name\nHINT:  See}m,
	'error for a contender with a long name');

done_testing();
