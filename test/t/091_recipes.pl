# The statements of docs/recipes.md and docs/choosing.md, on two servers
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Docs;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my ($a, $b) = map { new_node($_, $zk->hosts) } qw(a b);
my @blocks = map { sql_blocks($_) } 'docs/recipes.md', 'docs/choosing.md';
my %session = map { $_->[0] => ZkTest->new($_->[1]) }
  [ a => $a ], [ b => $b ], [ c => $b ], [ 'the owner of the data' => $a ];

# The address that the page leaves to its readers
for my $statement (map { @{ $_->{statements} } } @blocks)
{
	my %address = (host => $a->host, port => $a->port);

	$statement->[0] =~ s/\b(host|port) '[^']+'/$1 '$address{$1}'/g
	  if $statement->[0] =~ /^CREATE SERVER /;
}

# Sessions that use a short timeout have to be connected before.
$_->query(q(SELECT zk_lock_acquire('/hello'), zk_lock_release('/hello')))
  for values %session;

# A release does not wait for ZooKeeper: waits until only nodes of held locks
# are left.
sub wait_for_releases
{
	my $held = 0;

	$held += $_->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()')
	  for values %session;
	wait_until('released locks are free',
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t$held$/m });
	return;
}

cmp_ok(scalar @blocks, '>', 25, 'pages have statements');
for my $block (@blocks)
{
	my @names = $block->{as} eq 'both' ? qw(a b) : $block->{as};

	ok(@{ $block->{statements} } > 0, "block for $block->{as} has statements");
	for my $name (@names)
	{
		wait_for_releases();
		run_documented($session{$name}, $_) for @{ $block->{statements} };
	}
}

# When the session of the leader ends, another worker follows.
$session{b}->start(q(SELECT zk_lock_acquire('/workers/mail', scope => 'session')));
wait_for_queue($zk, '/workers/mail', @session{qw(a b)});
$session{a}->close;
is($session{b}->result, 't', 'next worker becomes the leader when its session ends');

# A leader whose node is deleted gets an error at commit, and can become the
# leader again.
$session{b}->query(q(SET zklock.confirm_commit = 'always'));
$zk->delete("/workers/mail/$_") for $zk->children('/workers/mail');
like($session{b}->query(q(BEGIN; SELECT 1; COMMIT)),
	qr/^ERROR:  40001:/m, 'leader without a node gets an error');
is($session{b}->query(q(SELECT zk_lock_acquire('/workers/mail', '5s', scope => 'session'))),
	't', '... and can become the leader again');

done_testing();
