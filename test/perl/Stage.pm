# The beginning and the end of programs that run their own servers. They leave
# nothing behind except the extension. make has installed the packages that they need,
# Perl's core modules among them.
#
#	my ($bindir, $tmp) = set_up('demo', sub { $zk->stop if $zk });
#	check($n == 1, 'there is one');
#	finish();

package Stage;

use strict;
use warnings;

use Child;
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(remove_tree);
use File::Spec;
use File::Temp qw(tempdir);
use POSIX ();
use Wait;

our @EXPORT = qw(pg_config install set_up keep_files check finish);
our @EXPORT_OK = qw(is like);

use constant SIGNALS => qw(INT TERM HUP PIPE);

my $top = File::Spec->rel2abs(dirname(__FILE__) . '/../..');
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my $main_pid = $$;
my ($tmp, $stop, $kept);

our ($passed, $failed) = (0, 0);    # checks so far
our $where = '';                    # printed with those that fail
our $verbose = 0;                   # are those that pass also printed?

# Installs the extension, unless ZKLOCK_INSTALLED is set, for program $name. If it
# runs as root, it continues as user postgres, because PostgreSQL does not run as root.
#
# Returns the directory of PostgreSQL's programs, and a private directory with
# copies of @files, which is removed at the end. Before that, $at_end is
# called, also when the program is interrupted.
sub set_up
{
	my ($name, $at_end, @files) = @_;

	_begin($name, $at_end);
	for my $file (@files)
	{
		copy("$top/test/$name/$file", $tmp) or die "$file: $!\n";
	}
	_install_extension() if !$ENV{ZKLOCK_INSTALLED};
	_step_down() if $> == 0;
	return (pg_config('bindir'), $tmp);
}

# Installs the extension for a program that calls set_up() later, in another process.
sub install
{
	my ($name) = @_;

	return if $ENV{ZKLOCK_INSTALLED};
	_begin($name, sub { });
	_install_extension();
	remove_tree($tmp);
	$ENV{ZKLOCK_INSTALLED} = 1;
	return;
}

sub _begin
{
	my ($name, $at_end) = @_;

	$| = 1;
	umask(077);
	$stop = $at_end;
	$SIG{$_} = sub { _ignore_signals(); exit 1 }
	  for SIGNALS;

	# Our programs must not use the settings of the caller, or of a calling
	# make.
	delete @ENV{ grep { /^(PG(?!_CONFIG$)|MAKE|MFLAGS$)/ } keys %ENV };
	$ENV{LC_ALL} = 'C.UTF-8';
	$ENV{PATH} .= ':/usr/sbin';

	# Not in TMPDIR: the names of sockets must be short, and user postgres must
	# be able to enter the directory.
	$tmp = tempdir("zklock-$name-XXXXXX", DIR => '/tmp');
	$ENV{TMPDIR} = $tmp;
	return;
}

# Keeps the directory for inspection.
sub keep_files
{
	$kept = 1;
	return;
}

# Counts a check, and prints it if it fails. Returns whether it passes.
sub check
{
	my ($ok, $what) = @_;

	$ok ? $passed++ : $failed++;
	print $ok ? '  ok: ' : '  FAILED: ', "$where$what\n" if !$ok || $verbose;
	return $ok;
}

# The same for a text, which is also printed
sub is
{
	my ($got, $expected, $what) = @_;

	return check(1, $what) if $got eq $expected;
	return check(0, "$what: $got; expected: $expected");
}

sub like
{
	my ($got, $pattern, $what) = @_;

	return check(1, $what) if $got =~ $pattern;
	return check(0, "$what: $got");
}

# Ends the program with the counts of the checks, and $more behind them. The directory is kept if
# one failed.
sub finish
{
	my ($more) = @_;

	if ($failed)
	{
		print "See $tmp for the servers' data and logs.\n";
		keep_files();
	}
	print "$passed passed, $failed failed", $more // '', "\n";
	exit($failed ? 1 : 0);
}

# Returns the output of pg_config --$what.
sub pg_config
{
	my ($what) = @_;

	chomp(my $answer = `"$pg_config" --$what`);
	die "$pg_config --$what failed\n" if $? != 0;
	return $answer;
}

# Builds in a copy, so that an installation as root leaves no files of root in
# the checkout.
sub _install_extension
{
	my $build = "$tmp/build";
	my @make =
	  ('make', '-s', '-C', $build, "PG_CONFIG=$pg_config", 'with_llvm=no');
	my @sudo = -w pg_config('pkglibdir') ? () : ('sudo');

	print 'Building and installing zklock for ', pg_config('version'), " ...\n";
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

# Changes the user from root to postgres, and gives the directory to that user.
sub _step_down
{
	my ($uid, $gid) = (getpwnam('postgres'))[ 2, 3 ];
	my @paths = ($tmp, glob("$tmp/*"));

	die "There is no user postgres to run PostgreSQL as.\n"
	  unless defined $uid;
	chown($uid, $gid, @paths) == @paths or die "chown: $!\n";
	chdir('/');
	$( = $) = "$gid $gid";
	POSIX::setuid($uid) or die "setuid: $!\n";
	return;
}

# A second signal, as make sends it to a program that has got the first one with make itself,
# would otherwise end the END block that runs, and that of a module may run before that below.
sub _ignore_signals
{
	$SIG{$_} = 'IGNORE' for SIGNALS;
	return;
}

END
{
	if ($$ == $main_pid && $stop)
	{
		my $status = $?;

		_ignore_signals();
		$stop->();
		Child::stop_all();
		remove_tree($tmp) if $tmp && !$kept;
		$? = $status;
	}
}

1;
