# docs/troubleshooting.md has an entry for each message in the sources, with
# its SQLSTATE or level, and no entry for any other text.
#
# A message is a string literal of several words. Hints, and fragments that are
# put into other texts, need no entry.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use File::Find;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";

# Arguments of these calls are advice, descriptions of settings, or no
# messages.
my $silent_calls =
  qr/^(?:errhint|GUC_check_errhint|DefineCustom\w+|ShmemInit\w+|hash_create|AllocSetContextCreate|ResourceOwner\w+|StaticAssertDecl)$/;

# Literals that need no entry: advice that is chosen before ereport(), names of
# things, and fragments of messages that have an entry.
my @silent = (
	qr/^(?:Check zklock\.hosts|zklock\.hosts has its default value)/,
	qr/^(?:DELETE FROM|INSERT INTO) |excluded\.|^grant_number = |\bf\.(?:shared_)?token\b|^, clock_timestamp/,
	qr/^zk retcode=$/,
	qr/^(?:pg_catalog, pg_temp|read committed)$/,
	qr/^zklock (?:holds|publishers|resolver|worker|WAL positions)$/,
	qr/^(?:SELECT|CALL|SET) .*(?:question|position|zk_catch_up|pg_last_wal_replay_lsn|synchronous_commit)|^pg_logical_emit_message|^EXISTS \(SELECT FROM pg_replication_slots/,
	qr/^a (?:snapshot that it has or had|page that it uses, for|lock on a relation|transaction that waits for this one)/,
	qr/^(?:Zookeeper version|srvr is not executed|This ZooKeeper instance is not)$/,
	qr/^(?:create|list the children of|look at|read|revoke lock on|set count|write to|create a node below)(?: "\.\.\.")?$/,
	qr/^(?:array of lock paths|connection string|fencing token|lock (?:mode|path|scope)|number of leases|(?:path of a )?count)$/,
	qr/^(?:still waiting for|waiting for ZooKeeper lock|<insufficient privilege>)$/,
	qr/^(?:, and shared by \.\.\. more|; \.\.\. others? waits? for it)$/,
	qr/^\.\.\. on \.\.\.$/,
	qr/^(?:\.\.\. \()?node "\.\.\."\)?$/,
	qr/^port=|^\.\.\. id=/);

# These files return the reason why a value is invalid.
my $reasons = qr{(?:protocol/(?:path|hosts|acl)|client/zkconnect|client/zksession|common/authfile)\.c$};

# Replaces values and placeholders, in the sources and in the page, by "...".
sub normal
{
	my ($text) = @_;

	$text =~ s/\\"/"/g;
	$text =~ s/%(?:[-.0-9]|l)*[a-z]|%X/.../g;
	$text =~ s/\.{4,}/.../g;
	$text =~ s/\s+/ /g;
	return $text =~ s/^ | $//gr;
}

# Returns the literals of a file: for each a hash with its text, the calls that
# it is an argument of, outermost first, and the level and condition of
# ereport().
sub literals
{
	my ($source) = @_;
	my (@literals, @calls, $report, $returned);

	$source =~ s{/\*.*?\*/}{ }gs;
	$source =~ s/^\s*#\s*include.*$//mg;
	$source =~ s/\bINT64_FORMAT\b/"%d"/g;
	$source =~ s/(?<!\\)"\s*"//g;
	while (
		$source =~ /\G.*?(?:
			^(?<end>\}) |
			(?<return>\breturn\b) |
			'(?:\\.|[^'\\])+' |
			"(?<text>(?:\\.|[^"\\])*)" |
			\b(?<condition>ERRCODE_\w+) |
			(?<call>\w*)\s*(?<open>\() |
			(?<close>[);]))/gmsx)
	{
		my %found = %+;

		if (defined $found{end})
		{
			@calls = ();
		}
		elsif (defined $found{return})
		{
			$returned = 1;
		}
		elsif (defined $found{open})
		{
			push @calls, $found{call};
			$report = { level => $source =~ /\G\s*([^,]*),/ ? $1 : '' }
			  if $found{call} =~ /^(?:ereport|elog)$/;
			$report->{condition} = 'errno' if $found{call} eq 'errcode_for_file_access';
		}
		elsif (defined $found{close})
		{
			$returned = 0 if $found{close} eq ';';
			pop @calls if $found{close} eq ')';
		}
		elsif (defined $found{condition})
		{
			$report->{condition} //= $found{condition};
		}
		elsif (defined $found{text})
		{
			my $reported = (grep { /^(?:errmsg(?:_internal)?|elog)$/ } @calls) > 0;

			push @literals,
			  {
				text => normal($found{text}),
				calls => [@calls],
				returned => $returned,
				$reported ? %$report : ()
			  };
		}
	}
	return @literals;
}

# SQLSTATEs by PostgreSQL's names
my %sqlstate;
my ($includes) = run_command([ $ENV{PG_CONFIG} // 'pg_config', '--includedir-server' ]);
my $codes = slurp_file("$includes/utils/errcodes.h");
$sqlstate{$1} = join('', split(/\W+/, $2))
  while $codes =~ /^#define (ERRCODE_\w+) MAKE_SQLSTATE\(([^)]*)\)/mg;

# Messages, each with its known SQLSTATEs, 'warning' or 'log'
my %said;
find(
	{
		no_chdir => 1,
		wanted => sub {
			my $file = $File::Find::name;
			return if $file !~ /\.[ch]$/;

			for my $literal (literals(slurp_file($file)))
			{
				my ($text, $level) = ($literal->{text}, $literal->{level} // '');

				next if $text !~ /[a-z]{2}.* |\.\.\. [a-z]{2}/;
				next if grep { $_ =~ $silent_calls } @{ $literal->{calls} };
				next if grep { $text =~ $_ } @silent;
				next if $literal->{returned} && $file =~ $reasons;
				$said{$text} //= {};
				$said{$text}{
					  $level =~ /^(?:ERROR|FATAL)$/
					? $sqlstate{ $literal->{condition} // 'ERRCODE_INTERNAL_ERROR' }
					  // 'various'
					: $level =~ /^WARNING/ ? 'warning'
					: 'log'
				} = 1 if $level ne '';
			}
		}
	},
	"$top/src");

# In the page, an entry is the beginning of a list item.
my %entries;
my $page = slurp_file("$top/docs/troubleshooting.md");
$entries{ normal($1) } = $2 // ''
  while $page =~ /^ *- `([^`]+)`(?: \(([\w, ]+)\))?/mg;

cmp_ok(scalar keys %said, '>', 60, 'messages are found in the sources');
is(join("\n", grep { !exists $entries{$_} } sort keys %said),
	'', 'each message has an entry');
is(join("\n", grep { !exists $said{$_} } sort keys %entries),
	'', 'each entry belongs to a message');
for my $text (sort keys %said)
{
	my $how = join(', ', sort keys %{ $said{$text} });

	is($entries{$text}, $how, "$text: $how") if $how ne '' && $how ne 'various';
}

# Check the parser itself.
my @found = literals(<<'C');
void
f(void)
{
	/* errmsg("a comment is none") */
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("there is no \"%s\" "
					"of " INT64_FORMAT, a('"'), b),
			 errdetail("A detail."),
			 errhint("A hint (%d).", c)));
	later = "said elsewhere";
}
C
is( join('|', map { join(' ', $_->{text}, @{ $_->{calls} }) } @found),
	'there is no "..." of ... ereport  errmsg|A detail. ereport  errdetail|A hint (...). ereport  errhint|said elsewhere',
	'literals are found together with their calls');
is($found[0]{condition}, 'ERRCODE_UNDEFINED_OBJECT', 'the condition of ereport() is found');
is($sqlstate{ $found[0]{condition} }, '42704', 'the SQLSTATE of a condition is found');

done_testing();
