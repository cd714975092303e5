# Checks the committed history of the clients. Functions only: all their input
# comes from their arguments.
#
# A row describes one transaction and one of its locks: a hash with path, mode
# ('shared', or any other, which is exclusive), token, number, xid (another one
# in each transaction, also of other servers), server, client, kind, before and
# after (amounts), and began and committed (times in seconds): when it began to
# read with all of its locks held, and when it committed.

package History;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(max min sum0);

our @EXPORT_OK = qw(violations gone_nodes stale_reads longest_stall);

# Returns descriptions of all violations. $books has the amounts by path before
# the first row (opening) and after the last one (closing), and the number of
# sales by path (sales).
#
# The order of commits is that of their times. Equal times prove nothing; then
# the tokens decide, and for equal tokens the numbers.
sub violations
{
	my ($rows, $books) = @_;
	my (%of_path, %of_transaction, @wrong);

	my $order =
	  sub { $a->{committed} <=> $b->{committed} || _compare_grants($a, $b) };

	for my $row (sort $order @$rows)
	{
		push @{ $of_path{ $row->{path} } }, $row;
		push @{ $of_transaction{ $row->{xid} } }, $row;
	}
	for my $path (sort keys %{ $books->{opening} })
	{
		my $history = $of_path{$path} // [];

		push @wrong, map { "$path: $_" } _of_locks($history),
		  _of_amounts(
			$history,
			$books->{opening}{$path},
			$books->{closing}{$path}),
		  _of_sales($history, $books->{sales}{$path} // 0);
	}
	push @wrong, _of_money(\%of_transaction, $books), _of_tokens($rows);
	return @wrong;
}

# Returns descriptions of the reads (Load.pm) that did not show what the last holder of the lock
# before had committed. $opening has the amounts by path before the first row.
sub stale_reads
{
	my ($rows, $opening, @reads) = @_;
	my %of_path;
	my @stale;

	push @{ $of_path{ $_->{path} } }, $_ for grep { $_->{mode} ne 'shared' } @$rows;
	for my $path (keys %of_path)
	{
		$of_path{$path} = [ sort { _compare_grants($a, $b) } @{ $of_path{$path} } ];
	}
	for my $read (@reads)
	{
		my $amount = $opening->{ $read->{path} };

		for my $row (@{ $of_path{ $read->{path} } // [] })
		{
			last if _compare_grants($row, $read) >= 0;
			$amount = $row->{after};
		}
		push @stale, "$read->{client} read $read->{amount} instead of $amount of $read->{path}, "
		  . "token $read->{token}, number $read->{number}"
		  if $read->{amount} != $amount;
	}
	return @stale;
}

# Conflicting locks were held one after the other, in the order of tokens.
sub _of_locks
{
	my ($history) = @_;
	my (%last, %newest, @wrong);    # of all, and of those that are not shared

	for my $row (@$history)
	{
		my $rivals = $row->{mode} eq 'shared' ? 'exclusive' : 'all';
		my ($before, $newer) = ($last{$rivals}, $newest{$rivals});

		push @wrong, _pair('overlap', $before, $row)
		  if $before && $row->{began} < $before->{committed};
		push @wrong, _pair('an older token commits later', $newer, $row)
		  if $newer && _compare_grants($row, $newer) <= 0;
		for my $kind ('all', $row->{mode} eq 'shared' ? () : 'exclusive')
		{
			$last{$kind} = $row;
			$newest{$kind} = $row
			  if !$newest{$kind} || _compare_grants($row, $newest{$kind}) > 0;
		}
	}
	return @wrong;
}

# Each transaction found the result of its predecessor, and no amount was
# negative.
sub _of_amounts
{
	my ($history, $opening, $closing) = @_;
	my $amount = $opening;
	my ($previous, @wrong);

	for my $row (@$history)
	{
		push @wrong, $previous
		  ? _pair('a lost update', $previous, $row)
		  : "began with $opening, not as in " . _describe($row)
		  if $row->{before} != $amount;
		push @wrong, 'below zero: ' . _describe($row) if $row->{after} < 0;
		$amount = $row->{after};
		$previous = $row;
	}
	push @wrong, "ends with $closing, not with $amount" if $closing != $amount;
	return @wrong;
}

sub _of_sales
{
	my ($history, $sales) = @_;
	my $known = grep { $_->{kind} eq 'sale' } @$history;

	return $sales == $known ? () : "$sales sales, of which $known are known";
}

# No transfer creates or loses money, nor do all of them together.
sub _of_money
{
	my ($of_transaction, $books) = @_;
	my (%account, @wrong);

	for my $xid (sort { $a <=> $b } keys %$of_transaction)
	{
		my @rows = @{ $of_transaction->{$xid} };
		next if $rows[0]{kind} ne 'transfer';
		push @wrong,
		  'money made or lost: ' . join(', ', map { _describe($_) } @rows)
		  if sum0(map { $_->{after} - $_->{before} } @rows) != 0;
		$account{ $_->{path} } = 1 for @rows;
	}

	my ($opening, $closing) =
	  map { sum0(@$_{ keys %account }) } @$books{qw(opening closing)};
	push @wrong, "all money was $opening and is $closing"
	  if $opening != $closing;
	return @wrong;
}

# No other transaction has the same token and number. Only readers of one lock may
# share a node, and with it both.
sub _of_tokens
{
	my ($rows) = @_;
	my (%owner, @wrong);

	for my $row (@$rows)
	{
		my $owner = $owner{"$row->{token} $row->{number}"} //= $row;

		push @wrong, _pair('one token twice', $owner, $row)
		  if $owner->{xid} != $row->{xid}
		  && !($owner->{path} eq $row->{path}
			&& $owner->{mode} eq 'shared'
			&& $row->{mode} eq 'shared');
	}
	return @wrong;
}

# Returns descriptions of the rows that were committed although their clients had seen before,
# in ZooKeeper, that their nodes were gone. A look has client, at (when it was over, and the client
# was about to commit), path, node, token and number.
sub gone_nodes
{
	my ($rows, @gone) = @_;
	my (%of_lock, @wrong);

	push @{ $of_lock{ _lock($_) } }, $_ for @$rows;
	for my $look (@gone)
	{
		push @wrong, map { "$look->{path}: $look->{node} was gone at $look->{at}: " . _describe($_) }
		  grep { $_->{began} <= $look->{at} && $look->{at} < $_->{committed} }
		  @{ $of_lock{ _lock($look) } // [] };
	}
	return @wrong;
}

# What a row and a look have in common
sub _lock
{
	my ($of) = @_;

	return join(' ', @$of{qw(client path token number)});
}

# Returns the longest time in which a client committed nothing although there
# was no fault, in seconds, and that client. @$fault_free are the times without a
# fault, [from, to], in order.
sub longest_stall
{
	my ($rows, $clients, $fault_free) = @_;
	my ($longest, $staller) = (0, '');
	my %commits;

	push @{ $commits{ $_->{client} } }, $_->{committed} for @$rows;
	for my $client (@$clients)
	{
		my $since = $fault_free->[0][0];

		for my $commit ((sort { $a <=> $b } @{ $commits{$client} // [] }),
			$fault_free->[-1][1])
		{
			my $stall =
			  sum0(map { max(0, min($commit, $_->[1]) - max($since, $_->[0])) }
				  @$fault_free);

			($longest, $staller) = ($stall, $client) if $stall > $longest;
			$since = $commit;
		}
	}
	return ($longest, $staller);
}

# Compares the age of two rows, for sort.
sub _compare_grants
{
	my ($first, $second) = @_;

	return $first->{token} <=> $second->{token}
	  || $first->{number} <=> $second->{number};
}

sub _pair
{
	my ($what, $first, $second) = @_;

	return "$what: " . _describe($first) . ', ' . _describe($second);
}

sub _describe
{
	my ($row) = @_;

	return sprintf(
		'[%s %s of %s, %d to %d, token %d.%d, xid %d, %.6f to %.6f]',
		$row->{mode}, $row->{kind}, $row->{client},
		$row->{before}, $row->{after}, @$row{qw(token number)},
		$row->{xid}, $row->{began}, $row->{committed});
}

1;
