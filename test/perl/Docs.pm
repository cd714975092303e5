# The SQL in a page of the documentation, to be run, and its snippets of other kinds.
#
# Statements are in blocks marked as sql. A comment behind a statement has its
# result: the output, "ERROR" or "WARNING" and a SQLSTATE, or "waits". The first line of a
# block can be "-- as NAME", which names the session that runs it.

package Docs;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename qw(dirname);
use File::Spec;
use Test::More;
use Wait;

my $top = File::Spec->rel2abs(dirname(__FILE__) . '/../..');

our @EXPORT = qw(sql_blocks code_blocks run_documented);

# Returns the blocks of a page, or of one section of it, in order: each a hash
# with the name, as (by default ''), and the statements, each [ statement,
# expected result ].
sub sql_blocks
{
	my ($page, $section) = @_;
	my $text = _read($page);
	my @blocks;

	($text) = $text =~ /^## \Q$section\E\n(.*?)(?=^## |\z)/ms if defined $section;
	while ($text =~ /^```sql\n(?:-- as ([^\n]+)\n)?(.*?)^```$/gms)
	{
		my ($as, $sql) = ($1, $2);
		my @statements;

		push @statements, [ $1, $2 // '' ]
		  while $sql =~
		  /^([A-Z](?:\$\$.*?\$\$|[^\$]|\$\d)*?);[ \t]*(?:--[ \t]*([^\n]*))?$/gms;
		push @blocks, { as => $as // '', statements => \@statements };
	}
	return @blocks;
}

# The blocks of a page that are in another language, in order
sub code_blocks
{
	my ($page, $language) = @_;

	return _read($page) =~ /^```\Q$language\E\n(.*?)^```$/gms;
}

# Runs a statement, and checks its result.
sub run_documented
{
	my ($session, $statement) = @_;
	my ($sql, $said) = @$statement;
	my $answer;

	# A short timeout can be over before ZooKeeper answers if the machine is
	# busy.
	wait_until(
		'ZooKeeper answers',
		sub {
			$answer = $session->query($sql);
			return $answer !~ /^ERROR:  08/;
		});

	if ($said =~ /^(ERROR|WARNING) (\w{5})/)
	{
		like($answer, qr/^$1:  $2:/m, "$sql: $said");
		return;
	}
	unlike($answer, qr/^(ERROR|FATAL|WARNING):/m, $sql);
	is($answer, $said, "... says $said") if $said ne '';
	return;
}

# The text of a page
sub _read
{
	my ($page) = @_;

	open(my $fh, '<', "$top/$page") or die "$page: $!\n";
	local $/;
	return <$fh>;
}

1;
