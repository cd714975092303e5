# Prints the report of a round; Soak.pm describes its contents.

package Report;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(sum0);
use Text::Wrap qw(wrap);

our @EXPORT = qw(report);

$Text::Wrap::unexpand = 0;

# The number of violations that are shown
use constant SHOWN => 3;

sub report
{
	my ($round) = @_;
	my %errors = %{ $round->{errors} };
	my ($refused, $timed_out) =
	  map { delete $errors{$_} // 0 } qw(40001 55P03);

	printf("\nconfirm_commit=%s, fence %s (%d s)\n",
		@$round{qw(confirm fence seconds)});
	_line('faults', _sum($round->{faults}));
	_line('commits', _sum(_transactions($round->{rows}, 'server')));
	_line('', _sum(_transactions($round->{rows}, 'kind')));
	_line('refused', $refused, '(40001)');
	_line('timed out', $timed_out, '(55P03)');
	_line('other ends', _sum(\%errors));
	_line(
		'stall',
		sprintf('%.1f', $round->{stall}),
		"seconds without a commit of $round->{staller} and without a fault");
	_line('looks', _sum($round->{looks}));
	_line('reads', _sum($round->{reads}), 'on servers with copies') if $round->{reads};
	_line(
		'violations',
		scalar(@{ $round->{violations} }),
		@{ $round->{gone} } ? "and @{[scalar @{ $round->{gone} }]} locks whose nodes were gone before the commit" : '');
	print wrap('    ', '      ', "$_\n")
	  for map { _first(SHOWN, @{ $round->{$_} }) } qw(violations gone);
	print "  WRONG: $_\n" for @{ $round->{problems} };
	return;
}

sub _line
{
	my ($label, $number, $text) = @_;

	# A count and its name stay on one line.
	local $Text::Wrap::break = qr/(?<=,)\s/;

	print wrap('', ' ' x 21, sprintf('  %-10s %6s  %s', $label, $number, $text))
	  =~ s/ *$/\n/r;
	return;
}

# Returns $n of these, or all if there are fewer.
sub _first
{
	my ($n, @all) = @_;

	return splice(@all, 0, $n);
}

# The sum of the counts in a hash, and the counts
sub _sum
{
	my ($count) = @_;

	return (sum0(values %$count),
		join(', ', map { "$_ $count->{$_}" } sort keys %$count));
}

# The number of transactions for each value in a column
sub _transactions
{
	my ($rows, $column) = @_;
	my (%seen, %count);

	$seen{ $_->{xid} }++ or $count{ $_->{$column} }++ for @$rows;
	return \%count;
}

1;
