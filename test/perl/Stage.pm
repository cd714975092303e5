# Puts the extension of this checkout where PostgreSQL finds it, and gives up
# being root, as whom PostgreSQL does not run.

package Install;

use strict;
use warnings;

use Child;
use Exporter qw(import);
use File::Path qw(remove_tree);
use POSIX ();
use Wait;

our @EXPORT = qw(pg_config install_extension step_down);

my $pg_config = $ENV{PG_CONFIG} // 'pg_config';

# What pg_config answers to --$what.
sub pg_config
{
	my ($what) = @_;

	chomp(my $answer = `"$pg_config" --$what`);
	die "$pg_config --$what failed\n" if $? != 0;
	return $answer;
}

# Builds and installs the extension whose sources are in $top. The build is made
# in a copy below $tmp, so that an installation as root leaves none of root's
# files in the checkout.
sub install_extension
{
	my ($top, $tmp) = @_;
	my $build = "$tmp/build";
	my @make =
	  ('make', '-s', '-C', $build, "PG_CONFIG=$pg_config", 'with_llvm=no');
	my @sudo = -w pg_config('pkglibdir') ? () : ('sudo');

	mkdir($build) or die "$build: $!\n";
	for my $step (
		[
			'sh', '-c',
			'tar -C "$1" --exclude=.git -cf - . | tar -C "$2" -xf -',
			'sh', $top, $build
		],
		[ @make, 'clean' ],
		[ @make, 'all' ],
		[ @sudo, @make, 'install' ])
	{
		Child->run("$tmp/build.log", $Wait::timeout, @$step);
	}
	remove_tree($build);
	return;
}

# From root to postgres, who then owns @paths.
sub step_down
{
	my (@paths) = @_;
	my ($uid, $gid) = (getpwnam('postgres'))[ 2, 3 ];

	die "There is no user postgres to run PostgreSQL as.\n"
	  unless defined $uid;
	chown($uid, $gid, @paths) == @paths or die "chown: $!\n";
	chdir('/');
	$( = $) = "$gid $gid";
	POSIX::setuid($uid) or die "setuid: $!\n";
	return;
}

1;
