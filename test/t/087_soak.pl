# The soak test: its checker with constructed histories, and a short run. (make
# soak runs it for longer.)
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use File::Copy qw(copy);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

use lib "$FindBin::RealBin/../soak";
use Child;
use Faults;
use History qw(violations gone_nodes longest_stall);
use Look;
use Soak;
use Stage;
use ZkClient;
use ZkServer;

use constant SECONDS => 10;

my $seed = $ENV{SEED} // int(rand(1_000_000));
my $main_pid = $$;
my $soak;

# Runs before the END block that stops all servers of ZooKeeper.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;

		$soak->stop if $soak;
		Child::stop_all();
		$? = $status;
	}
}

# A correct history: a sale and a supply of a product, and two transfers
# between accounts with two concurrent audits between them
sub history
{
	my @rows;
	my $add = sub {
		my ($kind, $xid, $began, $committed, @locks) = @_;

		push @rows,
		  {
			kind => $kind,
			xid => $xid,
			began => $began,
			committed => $committed,
			mode => $kind eq 'audit' ? 'shared' : 'exclusive',
			server => 'A',
			client => 'A1',
			path => $_->[0],
			token => $_->[1],
			number => 0,
			before => $_->[2],
			after => $_->[3]
		  }
		  for @locks;
	};

	$add->('sale', 1, 1.0, 1.5, [ '/p', 10, 1, 0 ]);
	$add->('supply', 2, 1.6, 1.7, [ '/p', 11, 0, 5 ]);
	$add->('transfer', 3, 1.0, 2.0, [ '/a', 20, 7, 5 ], [ '/b', 21, 1, 3 ]);
	$add->('audit', 5, 2.1, 2.8, [ '/a', 30, 5, 5 ], [ '/b', 31, 3, 3 ]);
	$add->('audit', 4, 2.2, 2.7, [ '/a', 32, 5, 5 ], [ '/b', 33, 3, 3 ]);
	$add->('transfer', 6, 3.0, 4.0, [ '/a', 40, 5, 8 ], [ '/b', 41, 3, 0 ]);
	return (
		\@rows,
		{
			opening => { '/p' => 1, '/a' => 7, '/b' => 1 },
			closing => { '/p' => 5, '/a' => 8, '/b' => 0 },
			sales => { '/p' => 1 }
		});
}

is_deeply([ violations(history()) ], [], 'correct history has no violation');

{
	my ($rows, $books) = history();

	@$_{qw(token number)} = (10, $_->{xid}) for @$rows[ 0, 1 ];
	is_deeply([ violations($rows, $books) ],
		[], '... and with one token and two numbers');
}

# Changes to the history, with the violations that must be found, and no
# others. Rows 0 and 1 belong to the product, 2 and 3 to a transfer, 4 to 7 to
# the audits, 8 and 9 to a transfer.
my @wrong = (
	'two concurrent writers' =>
	  [ sub { $_[0][1]{began} = 1.4 }, qr{^/p: overlap} ],
	'a writer before a reader has ended' =>
	  [ sub { $_[0][8]{began} = 2.75 }, qr{^/a: overlap.*audit.*transfer} ],
	'a reader before a writer has ended' =>
	  [ sub { $_[0][4]{began} = 1.9 }, qr{^/a: overlap.*transfer.*audit} ],
	'a token older than the one before' =>
	  [ sub { $_[0][1]{token} = 9 }, qr{^/p: an older token commits later} ],
	'a token older than a reader\'s' => [
		sub { $_[0][9]{token} = 22 },
		qr{^/b: an older token commits later.*audit.*transfer}
	],
	'a reader\'s token older than a writer\'s' => [
		sub { $_[0][6]{token} = 19 },
		qr{^/a: an older token commits later.*transfer.*audit}
	],
	'an update that is lost' => [
		sub { @{ $_[0][1] }{qw(before after)} = (1, 5) },
		qr{^/p: a lost update}
	],
	'a reader with another value' => [
		sub { @{ $_[0][4] }{qw(before after)} = (6, 5) },
		qr{^/a: a lost update}
	],
	'another opening value' =>
	  [ sub { $_[1]{opening}{'/p'} = 2 }, qr{^/p: began with 2} ],
	'another closing value' =>
	  [ sub { $_[1]{closing}{'/p'} = 4 }, qr{^/p: ends with 4, not with 5} ],
	'an amount below zero' => [
		sub {
			$_[0][0]{after} = $_[0][1]{before} = -1;
		},
		qr{^/p: below zero}
	],
	'a sale without a history' => [
		sub { $_[1]{sales}{'/p'} = 2 },
		qr{^/p: 2 sales, of which 1 are known}
	],
	'a sale that is missing' =>
	  [ sub { $_[1]{sales} = {} }, qr{^/p: 0 sales, of which 1 are known} ],
	'a number older than the one before' => [
		sub { $_[0][$_]{token} = 10 for 0, 1; $_[0][0]{number} = 1 },
		qr{^/p: an older token commits later}
	],
	'two holders with one token' =>
	  [ sub { $_[0][2]{token} = 10 }, qr{^one token twice} ],
	'money from nowhere' => [
		sub { $_[0][9]{after} = $_[1]{closing}{'/b'} = 1 },
		qr{^money made or lost},
		qr{^all money was 8 and is 9}
	]);

while (my ($what, $case) = splice(@wrong, 0, 2))
{
	my ($spoil, @expected) = @$case;
	my ($rows, $books) = history();

	$spoil->($rows, $books);
	my @found = violations($rows, $books);
	ok( @found == @expected
		  && !(grep { $found[$_] !~ $expected[$_] } 0 .. $#found),
		"found: $what") or diag(join("\n", @found));
}

# A look at 1.4 finds that the node of row 0 is gone: it began at 1 and committed at 1.5.
my %gone =
  (client => 'A1', at => 1.4, path => '/p', node => 'n', token => 10, number => 0);

like(
	join("\n", gone_nodes((history())[0], \%gone)),
	qr{^/p: n was gone at 1\.4: .*sale.*token 10\.0, xid 1,.*$},
	'found: commit after a look that did not find the node');
for my $other (
	[ at => 1.5, 'after the commit' ],
	[ at => 0.9, 'before the transaction began' ],
	[ client => 'A2', 'by another client' ],
	[ token => 12, 'of another holder' ],
	[ number => 1, 'of another grant' ],
	[ path => '/a', 'of another lock' ])
{
	my ($key, $value, $what) = @$other;

	is_deeply([ gone_nodes((history())[0], { %gone, $key => $value }) ],
		[], "no violation: a look $what");
}

# Client a commits at 2 and 4, client b at 9; a fault lasts from 5 to 8.
my @commits =
  map { { client => $_->[0], committed => $_->[1] } }[ a => 2 ], [ a => 4 ],
  [ b => 9 ];
my @fault_free = ([ 1, 5 ], [ 8, 10 ]);

is_deeply(
	[ longest_stall(\@commits, [qw(a b)], \@fault_free) ],
	[ 5, 'b' ],
	'stall on both sides of a fault is found');
is_deeply(
	[ longest_stall(\@commits, [qw(a b c)], \@fault_free) ],
	[ 6, 'c' ],
	'client that never commits is found');
is_deeply(
	[ longest_stall(\@commits, ['a'], \@fault_free) ],
	[ 3, 'a' ],
	'client that stops to commit is found');

# Plans
my ($plan, $again, $other) =
  map {
	my $next = Faults::plan($_);
	[ map { $next->() } 1 .. 40 ]
  } 1, 1, 2;

is_deeply($plan, $again, 'the same seed makes the same plan');
isnt($plan->[1]{gap}, $other->[1]{gap}, 'another seed makes another plan');
is(Faults::plan(1, 'leader killed')->()->{name}, 'leader killed', 'plan with one fault');
eval { Faults::plan(1, 'no fault') };
is($@, "no fault is called no fault\n", 'plan with an unknown fault');

# Looks at nodes
my $zk = ZkServer->new->start;
my $client = ZkClient->new($zk->hosts);

$client->create('/look');
my $node = $client->create('/look/n-', '', ZkClient::EPHEMERAL | ZkClient::SEQUENCE) =~ s{.*/}{}r;
my %lock = (path => '/look', node => $node, token => $client->exists("/look/$node")->{czxid});
my $look = Look->new($zk->hosts);

is_deeply([ $look->at(\%lock) ], ['there'], 'look finds a node');
is_deeply(
	[ $look->at({ %lock, token => $lock{token} - 1 }) ],
	[ 'gone', { %lock, token => $lock{token} - 1 } ],
	'... not one with the same name that is newer');
is_deeply([ $look->at({ %lock, node => 'other', token => $lock{token} + 1000 }) ],
	['unknown'], '... and a node that the server cannot know yet is not gone');
$zk->pause;
is_deeply([ $look->at(\%lock) ], ['unknown'], '... and a server that does not answer says nothing');
is_deeply([ $look->at(\%lock) ], ['unknown'], '... nor does one that does not accept a session');
$zk->resume;
$client->delete("/look/$node");
is_deeply([ $look->at(\%lock) ], [ 'gone', \%lock ], '... and one that is deleted is gone');
$zk->stop;
is_deeply([ $look->at(\%lock) ], ['unknown'], '... and a server that is down says nothing');

# The short run
open(my $out, '>', \my $report) or die "cannot write to a string: $!";
my $dir = tempdir(TMPDIR => 1, CLEANUP => 1);
copy("$FindBin::RealBin/../soak/soak.sql", $dir) or die "soak.sql: $!\n";
$soak = Soak->new(pg_config('bindir'), $dir, $seed);
$soak->start;
select($out);
my $ok = $soak->run(SECONDS);
select(STDOUT);
ok($ok, "short soak succeeds, SEED=$seed") ? note($report) : diag($report);

done_testing();
