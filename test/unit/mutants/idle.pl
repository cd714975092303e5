#!/usr/bin/perl
#
# Prints, in the form of TAP, whether each command of the mutants that begins a line changes
# something.  One that changes nothing is left from a former form of the source: the mutant breaks
# another rule than it says, or none.
#
# usage: mutants/idle.pl SOURCES MUTANT...
use strict;
use warnings;

# What is left of the source when sed has run the script; undef if it is none.
sub mutate
{
	my ($script, $source) = @_;
	open my $sed, '-|', 'sed', '-e', $script, $source or die "sed: $!";
	local $/;
	my $text = <$sed>;
	return close $sed ? $text : undef;
}

my $sources = shift;
my ($test, $failed) = (0, 0);
for my $name (@ARGV)
{
	my ($part) = $name =~ /\.(\w+)\.sed$/ or next;
	open my $file, '<', $name or die "$name: $!";

	# Commands may continue on the next line.
	my @commands = do { local $/; <$file> } =~ /\G(?:[^\n]*\\\n)*[^\n]*\n/g;
	my @changing = grep { $commands[$_] =~ /^(?!#).*?(?:\bs\W|d$)/s } 0 .. $#commands;
	my ($source) = grep { -e } glob("{.,$sources/*}/$part.c");
	die "$name: no such source\n" if !defined $source;
	my $all = mutate(join('', @commands), $source) // die "$name: sed does not take it\n";
	open my $original, '<', $source or die "$source: $!";
	my $none = do { local $/; <$original> };
	my @idle = $all eq $none ? @changing : @changing < 2 ? () : grep {
		my $without = $_;
		my $text = mutate(join('', @commands[ grep { $_ != $without } 0 .. $#commands ]), $source);
		defined $text && $text eq $all
	} @changing;
	$failed ||= @idle;
	printf "%sok %d - each command of %s changes something\n", @idle ? 'not ' : '', ++$test, $name;
	print $commands[$_] =~ s/^/#   /mgr for @idle;
}
print "1..$test\n";
exit($failed ? 1 : 0);
