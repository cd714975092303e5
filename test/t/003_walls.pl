# The walls of the house (see src/README): what the sources of a folder may
# include, and that no room needs a room that needs it. A room is NAME.c and
# NAME.h together.
#
# Runs once: of no mode.

use strict;
use warnings;

use File::Basename;
use File::Find;
use File::Path;
use File::Spec;
use File::Temp;
use FindBin;
use Test::More;

# What the C language itself has and that keeps no time and reads nothing
my %pure = map { ("$_.h" => 1) } qw(stdbool stddef stdint stdio stdlib string);

# Those of PostgreSQL that come before all its others
my $postgres = qr{(?:^|/)(?:postgres\w*|c)\.h$};
my $zookeeper = qr{(?:^|/)zookeeper\.h$};

# What there is below $src: for each file what it includes, by its path below
# $src if it is there, else as it is written.
sub read_includes
{
	my ($src) = @_;
	my %includes;

	find(
		sub {
			return unless /\.[ch]$/;
			my $file = File::Spec->abs2rel($File::Find::name, $src);

			open(my $handle, '<', $_) or die "$file: $!\n";
			$includes{$file} =
			  [ map { /^\s*#\s*include\s*["<]([^">]+)[">]/ ? $1 : () } <$handle> ];
			close($handle);
		},
		$src);

	for my $file (keys %includes)
	{
		for my $included (@{ $includes{$file} })
		{
			my $beside = dirname($file) . "/$included";

			$included = $beside if exists $includes{$beside};
		}
	}
	return \%includes;
}

# All that a file gets by including what it includes
sub reach
{
	my ($includes, $file) = @_;
	my %seen;
	my @todo = ($file);

	while (defined(my $next = shift @todo))
	{
		push @todo, grep { !$seen{$_}++ } @{ $includes->{$next} // [] };
	}
	return sort keys %seen;
}

# What is wrong with one file
sub look_at_file
{
	my ($includes, $file) = @_;
	my ($folder) = split(m{/}, $file);
	my @direct = @{ $includes->{$file} };
	my @reach = reach($includes, $file);
	my @wrong;

	if ($folder eq 'protocol')
	{
		@wrong = grep { !$pure{$_} && !m{^protocol/} } @reach;
	}
	elsif ($folder eq 'client')
	{
		@wrong = grep { $_ =~ $postgres } @reach;
		push @wrong,
		  grep { $includes->{$_} && !m{^(?:client|protocol)/} } @direct;
	}
	elsif ($folder eq 'shared')
	{
		@wrong = grep { m{^client/} || $_ =~ $zookeeper } @reach;
	}
	elsif ($folder eq 'backend' || $folder eq 'worker')
	{
		@wrong = grep { $_ =~ $zookeeper } @reach;
	}
	else
	{
		return "$file is in no folder that has walls";
	}
	return map { "$file gets $_" } @wrong;
}

# A circle of rooms through this one, if there is any and this is its first room
sub circle
{
	my ($needs, $room) = @_;
	my %from;
	my @todo = ($room);

	while (defined(my $next = shift @todo))
	{
		for my $needed (sort keys %{ $needs->{$next} })
		{
			next if exists $from{$needed};
			$from{$needed} = $next;
			push @todo, $needed;
		}
	}
	return unless exists $from{$room};

	my @circle = ($room);
	do { unshift @circle, $from{ $circle[0] } } until $circle[0] eq $room;
	return if grep { $_ lt $room } @circle;
	return join(' -> ', @circle);
}

# All that is wrong below $src, a line each
sub wrongs
{
	my ($src) = @_;
	my $includes = read_includes($src);
	my @files = sort keys %$includes;
	my @wrongs = map { look_at_file($includes, $_) } @files;
	my @doors = grep { grep { $_ =~ $zookeeper } @{ $includes->{$_} } } @files;
	my %needs;

	push @wrongs, "zookeeper.h is included by @doors" if @doors > 1;
	for my $file (@files)
	{
		my $room = $file =~ s/\.[ch]$//r;

		for my $included (grep { $includes->{$_} } @{ $includes->{$file} })
		{
			my $needed = $included =~ s/\.[ch]$//r;

			$needs{$room}{$needed} = 1 if $needed ne $room;
		}
	}
	push @wrongs, grep { defined } map { circle(\%needs, $_) } sort keys %needs;
	return join("\n", @wrongs);
}

# The same for a small house whose walls are sound, but for some files of it
sub wrongs_with
{
	my (%files) = @_;
	my $src = File::Temp->newdir;

	%files = (
		'protocol/path.h' => [],
		'protocol/path.c' => [ '"protocol/path.h"', '<string.h>' ],
		'protocol/recipe.h' => [ '<stdint.h>' ],
		'client/door.h' => [],
		'client/core.h' => [ '<zookeeper/zookeeper.h>', '"client/door.h"' ],
		'client/core.c' => [ '"client/core.h"', '"protocol/path.h"', '<pthread.h>' ],
		'shared/claims.h' => [ '"protocol/recipe.h"' ],
		'shared/claims.c' => [ '"postgres.h"', '"backend/guc.h"', '"shared/claims.h"' ],
		'backend/guc.h' => [],
		'backend/guc.c' => [ '"postgres.h"', '"backend/guc.h"', '"client/door.h"' ],
		'backend/session.h' => [ '"client/door.h"' ],
		'backend/session.c' =>
		  [ '"postgres.h"', '"backend/session.h"', '"shared/claims.h"', '"storage/ipc.h"' ],
		%files);
	for my $file (keys %files)
	{
		mkpath("$src/" . dirname($file));
		open(my $handle, '>', "$src/$file") or die "$file: $!\n";
		print $handle map { "#include $_\n" } @{ $files{$file} };
		close($handle) or die "$file: $!\n";
	}
	return wrongs("$src");
}

is(wrongs_with(), '', 'a house whose walls are sound');

is(wrongs_with('protocol/path.c' => ['"postgres.h"']),
	'protocol/path.c gets postgres.h',
	'the protocol does not know PostgreSQL');
is(wrongs_with('protocol/path.c' => ['<time.h>']),
	'protocol/path.c gets time.h', '... nor the time');
is( wrongs_with('protocol/path.c' => ['"client/door.h"']),
	'protocol/path.c gets client/door.h',
	'... nor other folders');
is( wrongs_with('client/core.c' => ['<postgres_ext.h>']),
	'client/core.c gets postgres_ext.h',
	'the client does not know PostgreSQL');
is( wrongs_with('client/core.c' => ['"backend/guc.h"']),
	'client/core.c gets backend/guc.h', '... nor those who use it');
is( wrongs_with('client/other.h' => ['<zookeeper/zookeeper.h>']),
	'zookeeper.h is included by client/core.h client/other.h',
	'the client has one place for zookeeper.h');
is( wrongs_with(
		'backend/session.c' => [ '"postgres.h"', '"client/core.h"' ]),
	'backend/session.c gets zookeeper/zookeeper.h',
	'... and nobody else gets it through a header');
is( wrongs_with('shared/claims.c' => [ '"postgres.h"', '"backend/session.h"' ]),
	"shared/claims.c gets client/door.h\n"
	  . 'backend/session -> shared/claims -> backend/session',
	'shared memory does not know the client, nor do rooms need each other');
is( wrongs_with(
		'protocol/a.h' => ['"b.h"'],
		'protocol/b.c' => ['"c.h"'],
		'protocol/b.h' => [],
		'protocol/c.c' => ['"a.h"'],
		'protocol/c.h' => []),
	'protocol/a -> protocol/b -> protocol/c -> protocol/a',
	'... however far it is round');
is(wrongs_with('attic.c' => []),
	'attic.c is in no folder that has walls', 'a folder without walls');

my $src = "$FindBin::RealBin/../../src";
my $includes = read_includes($src);

cmp_ok(scalar(grep { @{ $includes->{$_} } } keys %$includes),
	'>', 50, 'there is something to look at');
ok((grep { $_ =~ $zookeeper } map { @$_ } values %$includes),
	'... and ZooKeeper is somewhere');
is(wrongs($src), '', 'the walls of this house are sound');

done_testing();
