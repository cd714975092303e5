# The parts of the packages: they name the same version, and their files exist.
# test/package builds and installs the packages.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Child;
use File::Spec;
use File::Temp;
use FindBin;
use IO::Uncompress::Unzip qw($UnzipError);
use JSON::PP;
use Test::More;
use Wait;

my $top = File::Spec->rel2abs("$FindBin::RealBin/../..");
my $dir = File::Temp->newdir('packages-XXXXXX', TMPDIR => 1);

sub slurp
{
	my ($file) = @_;

	open(my $fh, '<', "$top/$file") or die "$file: $!\n";
	return do { local $/; <$fh> };
}

# The version
my $meta = decode_json(slurp('META.json'));
my $version = $meta->{version};
my @extensions = qw(zklock zklock_advisory);
my $extension = $version =~ s/\.\d+$//r;

# An extension has the version of the last release that has changed its catalog, or of the
# coming one.
my @releases = map { s/\.\d+$//r } slurp('CHANGELOG.md') =~ /^## (\d\S+) \(/mg;
my %extension = map { $_ => (slurp("$_.control") =~ /^default_version = '(.*)'$/m)[0] } @extensions;

like($version, qr/^\d+\.\d+\.\d+$/, 'META.json has a version');
is_deeply([ sort keys %{ $meta->{provides} } ], \@extensions, '... and all extensions');
is((slurp('Makefile') =~ /^EXTENSION = (.*)$/m)[0], "@extensions", '... as the Makefile');
for my $name (@extensions)
{
	is($meta->{provides}{$name}{version}, $version, "META.json has the version of $name");
	ok((grep { $_ eq $extension{$name} } @releases),
		"version of $name is that of a release without the last number");
}
is((slurp('src/common/compat.h') =~ /\.version = "(.*)"/)[0],
	$extension, 'the version that the library reports is that of the release');
is((slurp('CHANGELOG.md') =~ /^## (\S+) \((?!unreleased)/m)[0],
	$version, 'the last release in CHANGELOG.md has the version');
is((slurp('debian/changelog') =~ /^zklock \((.*)-/)[0],
	$version, 'debian/changelog begins with the version of the release');

# The address and the places of the project: META.json is where they are given.
my %places = (
	'Homepage' => $meta->{resources}{homepage},
	'Vcs-Git' => $meta->{resources}{repository}{url},
	'Vcs-Browser' => $meta->{resources}{repository}{web},
	'Maintainer' => $meta->{maintainer}[0]);

like($places{Maintainer}, qr/^\S.* <\S+@\S+>$/, 'META.json has a maintainer with an address');
is((slurp('debian/control.in') =~ /^$_: (.*)$/m)[0],
	$places{$_}, "$_ in debian/control.in is that of META.json")
  for sort keys %places;
is((slurp('debian/changelog') =~ /^ -- (.*?)  /m)[0],
	$places{Maintainer}, '... and so is who signs debian/changelog');
is(-e "$top/debian/watch" ? 'yes' : 'no', $places{Homepage} ? 'yes' : 'no',
	'debian/watch is there if the project has a place');

# The scripts: a release may have a base script, an update script or both.

# Returns the versions that scripts create without a way of updates to a version.
sub versions_without_update
{
	my ($to, @scripts) = @_;
	my %reaches = ($to => 1);
	my @updates = map { [/--(.+)--(.+)\.sql$/] } grep { /--.+--/ } @scripts;
	my @bases = map { /--(.+)\.sql$/ } grep { !/--.+--/ } @scripts;

	for (@updates)
	{
		$reaches{ $_->[0] } = 1 for grep { $reaches{ $_->[1] } } @updates;
	}
	return @bases ? grep { !$reaches{$_} } @bases : 'none';
}

my @scripts = split(' ', (slurp('Makefile') =~ /^DATA = ((?:.*\\\n)*.*)$/m)[0] =~ s/\\\n//gr);
is_deeply([ sort @scripts ],
	[ map { s{^\Q$top\E/}{}r } sort glob("$top/sql/zklock*--*.sql") ],
	'Makefile names all scripts');
for my $name (@extensions)
{
	is_deeply([ versions_without_update($extension{$name}, grep { m{/$name--} } @scripts) ],
		[], "scripts of $name lead from each version to the last one");
	like($meta->{provides}{$name}{file},
		qr{^sql/$name--(?:[^-]+--)?\Q$extension{$name}\E\.sql$}, 'META.json names a script of that version');
}

my @older = map { "sql/zklock--$_.sql" } qw(1.0 1.1--1.2 1.0--1.1);
is_deeply([ versions_without_update('1.2', @older) ],
	[], 'a release can have update scripts only');
is_deeply([ versions_without_update('1.3', @older) ],
	['1.0'], '... an update script that is missing is found');
is_deeply([ versions_without_update('1.2', @older, 'sql/zklock--1.3.sql') ],
	['1.3'], '... and so is a base script without an update');

# debian/
my $control = slurp('debian/control');
my ($postgresql) = $control =~ /^Package: postgresql-(\d+)-zklock$/m;
is($control, slurp('debian/control.in') =~ s/PGVERSION/$postgresql/gr,
	'debian/control agrees with control.in');
my ($permission) = slurp('LICENSE') =~ /(^Permission .*)/ms;
is((slurp('debian/copyright') =~ s/^ \.?//gmr) =~ /(^Permission .*)/ms && $1,
	$permission, 'debian/copyright has the license');

# make dist, in a temporary repository with these files
my @git = (
	'env', '-u', 'MAKEFLAGS', "GIT_DIR=$dir/git", "GIT_WORK_TREE=$top",
	map({ ("GIT_$_\_NAME=nobody", "GIT_$_\_EMAIL=nobody") } qw(AUTHOR COMMITTER)));
Child->run("$dir/log", $Wait::timeout, @git, @$_)
  for [qw(git init -q)], [ qw(git -C), $top, qw(add .) ],
  [qw(git commit -q -m all)], [ qw(make -C), $top, 'dist', "DIST=$dir/zip" ];

my %packed;
my $zip = IO::Uncompress::Unzip->new("$dir/zip") or die "zip: $UnzipError\n";
do { $packed{ $zip->getHeaderInfo->{Name} } = 1 } while ($zip->nextStream > 0);

is((grep { !m{^zklock-\Q$version\E/} } keys %packed), 0,
	'all files of make dist are in a folder with name and version');
ok($packed{"zklock-$version/$_"}, "... $_ is included")
  for qw(META.json Makefile LICENSE src/main/zklock.c debian/rules), @scripts,
  map({ ("$_.control", $meta->{provides}{$_}{docfile}) } @extensions);
is((grep { m{^[^/]*/\.(ci|github|gitlab)} } keys %packed),
	0, '... files for a repository are not included');

# Docker gets the files that a Dockerfile copies, and no others.
for my $file (qw(docker/Dockerfile docker/volume.Dockerfile))
{
	my %copied = map { $_ => 1 } map { split } slurp($file) =~ /^COPY (?!--)(.*) \S+$/mg;
	my %given = map { $_ => 1 } slurp("$file.dockerignore") =~ /^!(.*)$/mg;

	is_deeply(\%copied, \%given, ".dockerignore agrees with $file");
	ok($copied{$_} && $packed{"zklock-$version/$_"}, "... $_ is included")
	  for 'Makefile', map { "$_.control" } @extensions;
	ok($copied{$_} && $packed{"zklock-$version/$_/"}, "... $_ is included")
	  for qw(sql src);
	like(slurp($file), qr/^ARG POSTGRES=$postgresql-/m,
		"$file has the PostgreSQL version of the package");
}

done_testing();
