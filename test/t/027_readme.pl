# What README.md says to do at the beginning, done in that order on servers that
# have never heard of zklock.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

# Where Debian's package has it listen
use constant DEFAULT_PORT => 2181;

my $zk = ZkServer->new->start;
my $hosts = $zk->hosts;

# A server with its defaults
sub fresh_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->start;
	return $node;
}

# A statement of a function's body is run in one, and ZooKeeper is where it is.
sub to_run
{
	my ($statement) = @_;

	$statement =~ s/'zk1:2181,zk2:2181,zk3:2181'/'$hosts'/;
	return $statement =~ /^PERFORM/ ? "DO \$\$ BEGIN $statement; END \$\$"
	  : $statement;
}

# The section's blocks of SQL, each with the text before it and its statements,
# each of these with what is said behind it.
my ($section) = slurp_file("$FindBin::RealBin/../../README.md") =~
  /^## Getting started\n(.*?)^## /ms;
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

	# The time that is given may be over before ZooKeeper has said a word, if it is short
	# and the machine busy.
	wait_until(
		'ZooKeeper answers',
		sub {
			$answer = $session->query($statement->[0]);
			return $answer !~ /^ERROR:  08/;
		});
	unlike($answer, qr/ERROR|WARNING/, $statement->[0]);
	is($answer, $statement->[1], "... says $statement->[1]")
	  if $statement->[1] ne '';
	return $answer;
}

# Has a server set up, as the first two blocks say, in this session.
sub set_up
{
	my ($session) = @_;

	run($session, $_) for @{ $blocks[0]->{statements} };
	is($session->query('SHOW zklock.hosts'), '127.0.0.1:' . DEFAULT_PORT,
		'by default ZooKeeper is on this machine');
	run($session, $_) for @{ $blocks[1]->{statements} };
	wait_until('the setting is in force',
		sub { $session->query('SHOW zklock.hosts') eq $hosts });
	return $session;
}

my $node = fresh_node('main');
my $main = set_up(ZkTest->new($node));
my $other = set_up(ZkTest->new(fresh_node('other')));
like($blocks[1]->{text}, qr/same machine, at port ${\ DEFAULT_PORT}, needs no setting/,
	'... of which a reader is told');
splice(@blocks, 0, 2);

while (my $block = shift @blocks)
{
	my @statements = @{ $block->{statements} };
	my @meanwhile;

	# The next block may be for somebody who looks on while this one has its lock.
	@meanwhile = @{ (shift @blocks)->{statements} }
	  if @blocks && $blocks[0]->{text} =~ /^Meanwhile, .* another server/m;
	my $last = pop @statements;
	run($main, $_) for @statements;
	if (@meanwhile)
	{
		my $wait = pop @meanwhile;

		is($wait->[1], 'waits', 'the last one is to wait');
		run($other, $_) for @meanwhile;
		$other->start($wait->[0]);
		wait_for_queue($zk, '/shop/product_42', $main, $other);
		ok(!$other->is_done, '... which it does');
	}
	run($main, $last);
	next if !@meanwhile;
	is($other->result, 't', '... until the lock is free');
	is($other->query('SELECT zk_lock_release_all()'), '1', '... and is had');
}

# Any session that comes later
my $later = ZkTest->new($node);
is($later->query(q(SELECT zk_lock_acquire('/shop/late'))),
	't', 'who comes later can lock');
like($zk->get("/shop/late/${\ ($zk->children('/shop/late'))[0]}")->{data},
	qr/pid=${\ $later->pid} /, '... in the same ZooKeeper');

# Or who sets it up in a session of its own
my ($load) = $section =~ /`(LOAD '\w+')`/;
my $admin = ZkTest->new(fresh_node('third'));
is($admin->query("$load; ALTER SYSTEM SET zklock.hosts = '$hosts'"),
	'', "$load makes the setting known, too");

done_testing();
