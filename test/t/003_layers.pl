# The layers of the sources (see src/README): which folder may include headers
# of which other folder, and that modules do not depend on each other in circles. A
# module is NAME.c and NAME.h together.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use File::Basename;
use File::Find;
use File::Path;
use File::Spec;
use File::Temp;
use FindBin;
use Test::More;

# For each folder, the other folders whose headers it may include
my %may_include = (
	protocol => [],
	common => ['protocol'],
	client => ['protocol'],
	shared => [qw(protocol common)],
	session => [qw(protocol common client shared)],
	worker => [qw(protocol common client shared session)],
	backend => [qw(protocol common client shared session)],
	sql => [qw(protocol common client shared session worker backend)],
	advisory => [qw(protocol common client shared session worker backend sql)],
	main => [qw(protocol common client shared session worker backend sql advisory)]);

# Headers of common/ that all may include: plain types, the clock and timers
my %plain = map { ("common/$_.h" => 1) } qw(clienttypes clock timer);

# Headers of the C library that protocol/ may use: none gives access to the
# time or to I/O.
my %pure = map { ("$_.h" => 1) } qw(assert stdbool stddef stdint stdio stdlib string);

# PostgreSQL's basic headers, which come before all its others
my $postgres = qr{(?:^|/)(?:postgres\w*|c)\.h$};
my $zookeeper = qr{(?:^|/)zookeeper\.h$};

# Reads the files below $src. Returns for each file the headers that it
# includes: as a path below $src if the header is there, else as written.
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

# All headers that a file includes, directly or indirectly
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

# Returns the violations of one file.
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
		  if !$below{$from} && !$plain{$included};
	}
	push @wrong, grep { !$pure{$_} && !$includes->{$_} } @reach
	  if $folder eq 'protocol' || $file eq 'common/clienttypes.h';
	push @wrong, grep { $_ =~ $postgres } @reach if $folder eq 'client';
	push @wrong, grep { $_ =~ $zookeeper } @reach
	  if $folder ne 'client' && $folder ne 'protocol';
	return map { "$file gets $_" } @wrong;
}

# Returns a circle of dependencies through this module, unless there is none or
# another module of the circle sorts first.
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

# Returns all violations below $src, one per line.
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

# The same for a small tree with correct layers in which the given files are
# replaced
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

is(wrongs_with(), '', 'a tree with correct layers is accepted');

is(wrongs_with('protocol/path.c' => ['"postgres.h"']),
	'protocol/path.c gets postgres.h',
	"protocol/ must not include PostgreSQL's headers");
is(wrongs_with('protocol/path.c' => ['<time.h>']),
	'protocol/path.c gets time.h', 'protocol/ must not include time.h');
is( wrongs_with('protocol/path.c' => ['"client/zkclient.h"']),
	'protocol/path.c gets client/zkclient.h',
	'protocol/ must not include other folders');
is( wrongs_with('common/clienttypes.h' => ['"postgres.h"']),
	join("\n",
		'client/core.c gets postgres.h', 'client/core.h gets postgres.h',
		'client/zkclient.h gets postgres.h',
		'common/clienttypes.h gets postgres.h'),
	"clienttypes.h must not include PostgreSQL's headers");
is( wrongs_with('client/core.c' => ['<postgres_ext.h>']),
	'client/core.c gets postgres_ext.h',
	"client/ must not include PostgreSQL's headers");
is( wrongs_with('client/core.c' => ['"common/guc.h"']),
	'client/core.c gets common/guc.h', 'client/ must not include headers of its callers');
is( wrongs_with('client/other.h' => ['<zookeeper/zookeeper.h>']),
	'zookeeper.h is included by client/core.h client/other.h',
	'zookeeper.h must be included only once');
is( wrongs_with(
		'session/session.c' => [ '"postgres.h"', '"client/core.h"' ]),
	'session/session.c gets zookeeper/zookeeper.h',
	'zookeeper.h must not reach other folders through a header');
is( wrongs_with('shared/claims.c' => [ '"postgres.h"', '"session/session.h"' ]),
	"shared/claims.c gets session/session.h\n"
	  . 'session/session -> shared/claims -> session/session',
	'shared/ must not include the session, and modules must not include each other');
is( wrongs_with(
		'backend/acquire.h' => [],
		'worker/worker.c' => [ '"postgres.h"', '"backend/acquire.h"' ]),
	'worker/worker.c gets backend/acquire.h',
	"worker/ must not include a backend's headers");
is( wrongs_with(
		'sql/sqlargs.h' => [],
		'worker/worker.h' => [],
		'backend/acquire.c' => [ '"postgres.h"', '"sql/sqlargs.h"', '"worker/worker.h"' ]),
	"backend/acquire.c gets sql/sqlargs.h\nbackend/acquire.c gets worker/worker.h",
	"backend/ must not include those of SQL functions, nor the worker's");
is( wrongs_with(
		'advisory/pair.h' => [],
		'advisory/redirect.h' => [],
		'main/zklock.c' => [ '"postgres.h"', '"advisory/redirect.h"', '"backend/acquire.h"' ],
		'backend/acquire.h' => ['"advisory/pair.h"'],
		'sql/status.c' => [ '"postgres.h"', '"advisory/redirect.h"' ]),
	"backend/acquire.h gets advisory/pair.h\nsql/status.c gets advisory/redirect.h",
	'only main/ may include headers of advisory/');
is( wrongs_with(
		'protocol/a.h' => ['"b.h"'],
		'protocol/b.c' => ['"c.h"'],
		'protocol/b.h' => [],
		'protocol/c.c' => ['"a.h"'],
		'protocol/c.h' => []),
	'protocol/a -> protocol/b -> protocol/c -> protocol/a',
	'a circle of several modules is found');
is(wrongs_with('attic.c' => []),
	'attic.c is in no folder of a layer', 'a folder without a layer is found');

my $top = "$FindBin::RealBin/../..";
my $includes = read_includes("$top/src");

cmp_ok(scalar(grep { @{ $includes->{$_} } } keys %$includes),
	'>', 50, 'the sources have includes');
ok((grep { $_ =~ $zookeeper } map { @$_ } values %$includes),
	'the sources include zookeeper.h');
is(wrongs("$top/src"), '', 'the layers of the sources are correct');

done_testing();
