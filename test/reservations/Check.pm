# Checks the transactions of the holders of a reservation. A function only: all its input comes
# from its arguments.

package Check;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(violations);

# Returns descriptions of all violations.
#
# Turns are the changes of the holder in order, each a hash with number, former and holder ('' if
# there is none), deadline (of the former holder), at (when it changed) and by_hand (t or f).
# Work is the transactions, each a hash with holder, server, entered, seen (the rows of other
# holders on this server that it has seen) and committed. Times are in seconds.
sub violations
{
	my ($turns, $work) = @_;
	my %number = map { ($_->{holder} => $_->{number}) } @$turns;

	return (_of_deadlines($turns), _of_order(\%number, $work), _of_sight(\%number, $work));
}

# Nobody gets the reservation before its time has passed, except by hand.
sub _of_deadlines
{
	my ($turns) = @_;

	return map { sprintf('too early: %s at %.6f, before %.6f', @$_{qw(holder at deadline)}) }
	  grep {
		     $_->{former} ne '' && $_->{holder} ne ''
		  && $_->{by_hand} eq 'f' && $_->{at} < $_->{deadline}
	  } @$turns;
}

# Nobody works before all work of former holders is committed.
sub _of_order
{
	my ($number, $work) = @_;
	my ($latest, @same, @wrong);

	for my $row (sort { $number->{ $a->{holder} } <=> $number->{ $b->{holder} } } @$work)
	{
		# The latest commit of former holders
		if (@same && $same[0]{holder} ne $row->{holder})
		{
			for (splice(@same))
			{
				$latest = $_ if !$latest || $_->{committed} > $latest->{committed};
			}
		}
		push @same, $row;
		push @wrong, sprintf('overlap: %s and %s', _describe($latest), _describe($row))
		  if $latest && $latest->{committed} > $row->{entered};
	}
	return @wrong;
}

# Each transaction has seen all work of former holders on its server, and none of later ones.
sub _of_sight
{
	my ($number, $work) = @_;
	my (%of_holder, %before, @wrong);

	$of_holder{ $_->{server} }{ $number->{ $_->{holder} } }++ for @$work;
	for my $server (keys %of_holder)
	{
		my $n = 0;

		for my $turn (sort { $a <=> $b } keys %{ $of_holder{$server} })
		{
			$before{$server}{$turn} = $n;
			$n += $of_holder{$server}{$turn};
		}
	}
	for my $row (@$work)
	{
		my $rows = $before{ $row->{server} }{ $number->{ $row->{holder} } };

		push @wrong, sprintf('%d rows of others, not %d: %s', $row->{seen}, $rows, _describe($row))
		  if $row->{seen} != $rows;
	}
	return @wrong;
}

sub _describe
{
	my ($row) = @_;

	return sprintf('[%s on %s, %.6f to %.6f]', @$row{qw(holder server entered committed)});
}

1;
