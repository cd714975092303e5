# The layers of the sources (see src/README): which folder may include which, that no
# two modules need each other, and that names are the field's own. A module is NAME.c
# and NAME.h together.
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

# For each folder, those whose headers it may include besides its own
my %may_include = (
	protocol => [],
	common => ['protocol'],
	client => ['protocol'],
	shared => [qw(protocol common)],
	session => [qw(protocol common client shared)],
	worker => [qw(protocol common client shared session)],
	backend => [qw(protocol common client shared session worker)]);

# Plain types of the client's, for those who do not know the client
my $client_types = 'common/clienttypes.h';

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
	my @reach = reach($includes, $file);
	my @wrong;

	return "$file is in no folder of a layer" if !$may_include{$folder};

	my %below = map { ($_ => 1) } $folder, @{ $may_include{$folder} };
	for my $included (grep { $includes->{$_} } @{ $includes->{$file} })
	{
		my ($from) = split(m{/}, $included);

		push @wrong, $included
		  if !$below{$from} && $included ne $client_types;
	}
	push @wrong, grep { !$pure{$_} && !$includes->{$_} } @reach
	  if $folder eq 'protocol' || $file eq $client_types;
	push @wrong, grep { $_ =~ $postgres } @reach if $folder eq 'client';
	push @wrong, grep { $_ =~ $zookeeper } @reach
	  if $folder ne 'client' && $folder ne 'protocol';
	return map { "$file gets $_" } @wrong;
}

# A circle of modules through this one, if there is any and this is its first one
sub circle
{
	my ($needs, $module) = @_;
	my %from;
	my @todo = ($module);

	while (defined(my $next = shift @todo))
	{
		for my $needed (sort keys %{ $needs->{$next} })
		{
			next if exists $from{$needed};
			$from{$needed} = $next;
			push @todo, $needed;
		}
	}
	return unless exists $from{$module};

	my @circle = ($module);
	do { unshift @circle, $from{ $circle[0] } } until $circle[0] eq $module;
	return if grep { $_ lt $module } @circle;
	return join(' -> ', @circle);
}

# All that is wrong below $src, a line each
sub wrongs
{
	my ($src) = @_;
	my $includes = read_includes($src);
	my @files = sort keys %$includes;
	my @wrongs = map { look_at_file($includes, $_) } @files;
	my @direct = grep { grep { $_ =~ $zookeeper } @{ $includes->{$_} } } @files;
	my %needs;

	push @wrongs, "zookeeper.h is included by @direct" if @direct > 1;
	for my $file (@files)
	{
		my $module = $file =~ s/\.[ch]$//r;

		for my $included (grep { $includes->{$_} } @{ $includes->{$file} })
		{
			my $needed = $included =~ s/\.[ch]$//r;

			$needs{$module}{$needed} = 1 if $needed ne $module;
		}
	}
	push @wrongs, grep { defined } map { circle(\%needs, $_) } sort keys %needs;
	return join("\n", @wrongs);
}

# The same for a small tree whose layers are right, but for some files of it
sub wrongs_with
{
	my (%files) = @_;
	my $src = File::Temp->newdir;

	%files = (
		'protocol/path.h' => [],
		'protocol/path.c' => [ '"protocol/path.h"', '<string.h>' ],
		'protocol/recipe.h' => ['<stdint.h>'],
		'common/clienttypes.h' => ['<stdint.h>'],
		'common/guc.h' => [],
		'common/guc.c' => [ '"postgres.h"', '"common/guc.h"', '"protocol/path.h"' ],
		'client/zkclient.h' => ['"common/clienttypes.h"'],
		'client/core.h' => [ '<zookeeper/zookeeper.h>', '"client/zkclient.h"' ],
		'client/core.c' => [ '"client/core.h"', '"protocol/path.h"', '<pthread.h>' ],
		'shared/claims.h' => ['"protocol/recipe.h"'],
		'shared/claims.c' => [
			'"postgres.h"', '"common/guc.h"', '"common/clienttypes.h"',
			'"shared/claims.h"' ],
		'session/session.h' => ['"client/zkclient.h"'],
		'session/session.c' =>
		  [ '"postgres.h"', '"session/session.h"', '"shared/claims.h"', '"storage/ipc.h"' ],
		'worker/worker.c' => [ '"postgres.h"', '"session/session.h"' ],
		'backend/acquire.c' => [ '"postgres.h"', '"session/session.h"' ],
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

is(wrongs_with(), '', 'a tree whose layers are right');

is(wrongs_with('protocol/path.c' => ['"postgres.h"']),
	'protocol/path.c gets postgres.h',
	'the protocol does not know PostgreSQL');
is(wrongs_with('protocol/path.c' => ['<time.h>']),
	'protocol/path.c gets time.h', '... nor the time');
is( wrongs_with('protocol/path.c' => ['"client/zkclient.h"']),
	'protocol/path.c gets client/zkclient.h',
	'... nor other folders');
is( wrongs_with('common/clienttypes.h' => ['"postgres.h"']),
	join("\n",
		'client/core.c gets postgres.h', 'client/core.h gets postgres.h',
		'client/zkclient.h gets postgres.h',
		'common/clienttypes.h gets postgres.h'),
	'types of the client are plain');
is( wrongs_with('client/core.c' => ['<postgres_ext.h>']),
	'client/core.c gets postgres_ext.h',
	'the client does not know PostgreSQL');
is( wrongs_with('client/core.c' => ['"common/guc.h"']),
	'client/core.c gets common/guc.h', '... nor those who use it');
is( wrongs_with('client/other.h' => ['<zookeeper/zookeeper.h>']),
	'zookeeper.h is included by client/core.h client/other.h',
	'the client includes zookeeper.h once');
is( wrongs_with(
		'session/session.c' => [ '"postgres.h"', '"client/core.h"' ]),
	'session/session.c gets zookeeper/zookeeper.h',
	'... and nobody else gets it through a header');
is( wrongs_with('shared/claims.c' => [ '"postgres.h"', '"session/session.h"' ]),
	"shared/claims.c gets session/session.h\n"
	  . 'session/session -> shared/claims -> session/session',
	'shared memory does not know the session, nor do modules need each other');
is( wrongs_with(
		'backend/acquire.h' => [],
		'worker/worker.c' => [ '"postgres.h"', '"backend/acquire.h"' ]),
	'worker/worker.c gets backend/acquire.h', 'the worker does not know a backend');
is( wrongs_with(
		'protocol/a.h' => ['"b.h"'],
		'protocol/b.c' => ['"c.h"'],
		'protocol/b.h' => [],
		'protocol/c.c' => ['"a.h"'],
		'protocol/c.h' => []),
	'protocol/a -> protocol/b -> protocol/c -> protocol/a',
	'... through any number of modules');
is(wrongs_with('attic.c' => []),
	'attic.c is in no folder of a layer', 'a folder of no layer');

my $top = "$FindBin::RealBin/../..";
my $includes = read_includes("$top/src");

cmp_ok(scalar(grep { @{ $includes->{$_} } } keys %$includes),
	'>', 50, 'there is something to look at');
ok((grep { $_ =~ $zookeeper } map { @$_ } values %$includes),
	'... and ZooKeeper is somewhere');
is(wrongs("$top/src"), '', 'the layers of the sources are right');

# Names. The first are words that only their author understands; the second have a
# meaning in prose, but say nothing as the name of a module, a type or a function.
my $private = join('|',
	qw(venue lodger tenant tenure keepsake knock evict heed inquiry bunch errand));
my $vague = join('|', qw(own place order seat flight survey alarm patience bar leave));

# The words of a name: zklock_foo_bar, ZkLockFooBar
sub words_of
{
	my ($name) = @_;

	return map { lc } split(/_|(?<=[a-z])(?=[A-Z])/, $name);
}

# Which private words are in a text, and which vague ones in names that a text of C
# defines
sub bad_words
{
	my ($file, $text) = @_;
	my @bad = map { "$file: $_" } $text =~ /\b\w*?((?:$private)(?:s|ed)?)(?![a-z])/gi;

	return @bad unless $file =~ /\.[ch]$/;
	my @names = (basename($file) =~ s/\.[ch]$//r,
		$text =~ /^(\w+)\(/mg,                      # a function
		$text =~ /^\} (\w+);/mg,                    # a type
		$text =~ /^(?:typedef )?(?:struct|enum) (\w+)/mg);
	for my $name (@names)
	{
		push @bad, "$file: $name" if grep { /^(?:$vague)s?$/ } words_of($name);
	}
	return @bad;
}

is_deeply([ bad_words('a.c', "/* a needless word */\nint\nleaves_nothing(int placed)\n") ],
	['a.c: leaves_nothing'], 'a vague word in a name is found')
  or diag(explain([ bad_words('a.c', "/* a needless word */\nint\nleaves_nothing(int placed)\n") ]));
is_deeply([ bad_words('a.md', 'The Tenants leave their place.') ],
	['a.md: Tenants'], '... and a private one anywhere');

my @bad;
find(
	{   no_chdir => 1,
		wanted => sub {
			my $file = File::Spec->abs2rel($_, $top);

			return if !-f $_ || !-T _ || $file =~ m{(^|/)(build|results|tmp_check)/}
			  || $file eq 'test/t/' . basename(__FILE__)
			  || $file =~ /\.(?:o|so|bc)$/;
			open(my $handle, '<', $_) or die "$file: $!\n";
			push @bad, bad_words($file, do { local $/; <$handle> });
			close($handle);
		}
	},
	map { "$top/$_" } qw(README.md src test docs sql));
is(join("\n", @bad), '', 'names are those of the field');

done_testing();
