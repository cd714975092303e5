# What docs/recipes.md and docs/choosing.md say, as they say it, on two servers.

use strict;
use warnings;

use Docs;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my ($a, $b) = map { new_node($_, $zk->hosts) } qw(a b);
my @blocks = map { sql_blocks($_) } 'docs/recipes.md', 'docs/choosing.md';
my %who = map { $_->[0] => ZkTest->new($_->[1]) }
  [ a => $a ], [ b => $b ], [ c => $b ], [ 'the owner of the data' => $a ];

$b->safe_psql(
	'postgres', qq(
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER data FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '${\ $a->host}', port '${\ $a->port}', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER data));

# Who tries at once, or for a moment, is to be connected already.
$_->query(q(SELECT zk_lock_acquire('/hello'), zk_lock_release('/hello')))
  for values %who;

# A release is sent, not awaited: waits until there are no nodes but those of locks
# that are held.
sub wait_for_releases
{
	my $held = 0;

	$held += $_->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()')
	  for values %who;
	wait_until('what was released is free',
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t$held$/m });
	return;
}

cmp_ok(scalar @blocks, '>', 25, 'there are recipes');
for my $block (@blocks)
{
	my @who = $block->{as} eq 'both' ? qw(a b) : $block->{as};

	ok(@{ $block->{statements} } > 0, "something to do for $block->{as}");
	for my $who (@who)
	{
		wait_for_releases();
		run_documented($who{$who}, $_) for @{ $block->{statements} };
	}

	# What its owner has created there is to be had here.
	next if $block->{as} ne 'the owner of the data';
	my @tables = map { $_->[0] =~ /^CREATE TABLE (\w+)/ } @{ $block->{statements} };

	$b->safe_psql('postgres',
		"IMPORT FOREIGN SCHEMA public LIMIT TO (@tables) FROM SERVER data INTO public")
	  if @tables;
}

# The leader of the second recipe is followed by the next when its session ends.
$who{b}->start(q(SELECT zk_lock_acquire('/workers/mail', scope => 'session')));
wait_for_queue($zk, '/workers/mail', @who{qw(a b)});
$who{a}->close;
is($who{b}->result, 't', 'a worker that ends is followed by another');

# The leader whose node is gone is told so at its commit, and can be it again.
$who{b}->query(q(SET zklock.confirm_commit = 'always'));
$zk->delete("/workers/mail/$_") for $zk->children('/workers/mail');
like($who{b}->query(q(BEGIN; SELECT 1; COMMIT)),
	qr/^ERROR:  40001:/m, 'a leader that is none any more is told so');
is($who{b}->query(q(SELECT zk_lock_acquire('/workers/mail', '5s', scope => 'session'))),
	't', '... and can be it again');

done_testing();
