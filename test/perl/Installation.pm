# A copy of the PostgreSQL installation, which can have another release of zklock.
#
#	my $copy = Installation->copy($dir);
#	$copy->use_zklock($root);
#
# A server finds its other files relative to its program. The program is a copy, because the
# server follows links. The other files are links.

package Installation;

use strict;
use warnings;

use Child;
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use Stage qw(pg_config);
use Wait;

# Makes the copy in $dir, with the installed zklock.
sub copy
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir, map { $_ => pg_config($_) } qw(bindir sharedir pkglibdir) }, $class;

	make_path($dir . dirname($self->{bindir}));
	Child->run("$dir/log", $Wait::timeout, 'cp', '-R', $self->{bindir}, $self->bindir);
	$self->{extension} = "$self->{sharedir}/extension";
	_link($_, "$dir$_") for @$self{qw(extension sharedir pkglibdir)};
	return $self;
}

sub bindir
{
	my ($self) = @_;

	return "$self->{dir}$self->{bindir}";
}

# The directory of the files of extensions
sub extension
{
	my ($self) = @_;

	return "$self->{dir}$self->{extension}";
}

# Gives it a copy of this library of zklock.
sub use_library
{
	my ($self, $file) = @_;
	my $library = "$self->{dir}$self->{pkglibdir}/zklock.so";

	unlink($library) or die "$library: $!\n";
	Child->run("$self->{dir}/log", $Wait::timeout, 'cp', $file, $library);
	return;
}

# Gives it the zklock that make install has put below $root, which is DESTDIR; if that is empty,
# the installed one.
sub use_zklock
{
	my ($self, $root) = @_;

	for my $files ("$self->{extension}/zklock*", "$self->{pkglibdir}/zklock.so")
	{
		for my $file (glob("$self->{dir}$files"))
		{
			unlink($file) or die "$file: $!\n";
		}
		_link(dirname("$root$files"), dirname("$self->{dir}$files"), basename($files));
	}
	return;
}

# Links files from a directory in another one, unless it has them.
sub _link
{
	my ($from, $to, $files) = @_;

	make_path($to);
	for my $file (glob("$from/" . ($files // '*')))
	{
		my $link = "$to/" . basename($file);

		-e $link or symlink($file, $link) or die "$link: $!\n";
	}
	return;
}

1;
