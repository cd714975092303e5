# Runs the statements of README.md's "Getting started", in that order, on
# servers that have not used zklock before; and what its beginning says about an outage.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Template;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

# The port of Debian's ZooKeeper package
use constant DEFAULT_PORT => 2181;

my $zk = ZkServer->new->start;
my $hosts = $zk->hosts;

# A server with default settings
sub fresh_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	init_node($node);
	$node->start;
	return $node;
}

# Makes a statement of the page executable: wraps PERFORM into a DO block, and
# replaces the addresses of ZooKeeper.
sub to_run
{
	my ($statement) = @_;

	$statement =~ s/'zk1:2181,zk2:2181,zk3:2181'/'$hosts'/;
	return $statement =~ /^PERFORM/ ? "DO \$\$ BEGIN $statement; END \$\$"
	  : $statement;
}

# The blocks of SQL in the section: for each, the text before it and its
# statements, with the result that a comment behind the statement shows.
my $page = slurp_file("$FindBin::RealBin/../../README.md");
my ($section) = $page =~ /^## Getting started\n(.*?)^## /ms;
my @blocks;
while ($section =~ /(.*?)^```sql\n(.*?)^```$/gms)
{
	my ($text, $sql) = ($1, $2);
	my @statements;

	push @statements, [ to_run($1), $2 // '' ]
	  while $sql =~ /^([A-Z].*?);(?: *-- (\w+).*?)?$/gms;
	push @blocks, { text => $text, statements => \@statements };
}

sub run
{
	my ($session, $statement) = @_;
	my $answer;

	# A short timeout can be over before ZooKeeper answers if the machine is
	# busy.
	wait_until(
		'ZooKeeper answers',
		sub {
			$answer = $session->query($statement->[0]);
			return $answer !~ /^ERROR:  08/;
		});
	unlike($answer, qr/ERROR|WARNING/, $statement->[0]);
	is($answer, $statement->[1], "... returns $statement->[1]")
	  if $statement->[1] ne '';
	return $answer;
}

# Sets up a server in this session with the first two blocks.
sub set_up
{
	my ($session) = @_;

	run($session, $_) for @{ $blocks[0]->{statements} };
	is($session->query('SHOW zklock.hosts'), '127.0.0.1:' . DEFAULT_PORT,
		'default address of ZooKeeper is this machine');
	run($session, $_) for @{ $blocks[1]->{statements} };
	wait_until('the setting is in effect',
		sub { $session->query('SHOW zklock.hosts') eq $hosts });
	return $session;
}

my $node = fresh_node('main');
my $main = set_up(ZkTest->new($node));
my $other = set_up(ZkTest->new(fresh_node('other')));
like($blocks[1]->{text}, qr/same machine, at port ${\ DEFAULT_PORT}, needs no setting/,
	'... and the text says so');
splice(@blocks, 0, 2);

while (my $block = shift @blocks)
{
	my @statements = @{ $block->{statements} };
	my @meanwhile;

	# The next block may belong to another session that runs while this one has
	# the lock. The one after it releases the lock.
	@meanwhile = @{ (shift @blocks)->{statements} }
	  if @blocks && $blocks[0]->{text} =~ /^Meanwhile, .* another server/m;
	run($main, $_) for @statements;
	if (@meanwhile)
	{
		my $wait = pop @meanwhile;

		is($wait->[1], 'waits', 'last statement of the other session waits');
		run($other, $_) for @meanwhile;
		$other->start($wait->[0]);
		wait_for_queue($zk, '/shop/product_42', $main, $other);
		ok(!$other->is_done, '... as the comment says');
		run($main, $_) for @{ (shift @blocks)->{statements} };
		is($other->result, 't', '... until the lock is released');
		is($other->query('SELECT zk_lock_release_all()'), '1', '... and is then granted');
	}
}

# A session that connects later
my $later = ZkTest->new($node);
is($later->query(q(SELECT zk_lock_acquire('/shop/late'))),
	't', 'later session can acquire a lock');
like($zk->get("/shop/late/${\ ($zk->children('/shop/late'))[0]}")->{data},
	qr/pid=${\ $later->pid} /, '... in the same ZooKeeper');

# A server that is set up in a session without the library: PostgreSQL refuses the
# setting, or does not check it.
my $hasty_node = fresh_node('hasty');
my $hasty = ZkTest->new($hasty_node);
my ($until) = slurp_file("$FindBin::RealBin/../../docs/reference.md") =~ /PostgreSQL\s+up\s+to\s+version\s+(\d+)\s+refuses/;
my $unchecked = $hasty->query('SHOW server_version_num') >= 10000 * ($until + 1);
like($hasty->query(q(ALTER SYSTEM SET zklock.hosts = 'nohost')),
	$unchecked ? qr/^$/ : qr/^ERROR:  42704: /,
	'without the library, ALTER SYSTEM ' . ($unchecked ? 'accepts any value' : 'fails'));
$hasty_node->append_conf('postgresql.conf', q(zklock.hosts = 'nohost')) if !$unchecked;
$hasty_node->reload;
wait_until('the unchecked value is in effect',
	sub { ZkTest->new($hasty_node)->query('SHOW zklock.hosts') eq 'nohost' });
like(
	ZkTest->new($hasty_node)
	  ->query(q(CREATE EXTENSION zklock; SELECT zk_lock_acquire('/shop/hasty'))),
	qr/^WARNING:  22023: .*"nohost".*^ERROR:  55000: invalid value for parameter "zklock.hosts"$/ms,
	'... and a session that loads the library can take no lock');

# A server that is set up in its own session
my ($load) = $section =~ /`(LOAD '\w+')`/;
my $admin = ZkTest->new(fresh_node('third'));
is($admin->query("$load; ALTER SYSTEM SET zklock.hosts = '$hosts'"),
	'', "$load defines the setting");

# What a reader has to know first is before the first section.
my ($beginning) = $page =~ /\A(.*?)^## /ms;
my ($error, $setting, $seconds) = $beginning =~
  /Without ZooKeeper, no new lock .*?\berror\s+`(\w+)`\s+after\s+`([\w.]+)`\s+\((\d+) s\)/s;
like($beginning, qr/cannot be installed in managed\s+PostgreSQL such as Amazon RDS/, 'where zklock cannot be used');
is($main->query("SHOW $setting"), "${seconds}s", 'how long a call waits for ZooKeeper, by default');
$zk->stop;
my $late = ZkTest->new($node, $setting => '1500ms');
my $began = time();
like($late->query(q(SELECT zk_lock_acquire('/shop/down'))), qr/^ERROR:  $error: /, 'an error without ZooKeeper');
cmp_ok(time() - $began, '>=', 1.5, '... after that time');

done_testing();
