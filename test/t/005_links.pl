# Links from one page of the documentation to another lead somewhere, and its
# pictures say what the text says that they are made from.
#
# Runs once: of no mode.

use strict;
use warnings;

use File::Basename;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my %pages = map { ($_ => slurp_file("$top/$_")) }
  map { s/^\Q$top\E\///r } glob("$top/*.md $top/docs/*.md");

# The anchors of a page, as forges make them of headings
sub anchors
{
	my ($page) = @_;

	return map { lc(s/[^\w\- ]//gr) =~ tr/ /-/r } $page =~ /^#+ (.*)$/mg;
}

# A path without what leads back
sub tidy
{
	my ($path) = @_;

	$path =~ s{^\./|(?<=/)\./}{}g;
	1 while $path =~ s{(?:^|(?<=/))[^/]+/\.\./}{};
	return $path;
}

# What is wrong with a link of a page
sub look_at_link
{
	my ($from, $link) = @_;
	my ($file, $anchor) = $link =~ /^([^#]*)#?(.*)$/;
	my $to = $file eq '' ? $from : tidy(dirname($from) . "/$file");

	return "$from: $link: there is no $to" if !-e "$top/$to";
	return "$from: $link: no such heading"
	  if $anchor ne '' && !grep { $_ eq $anchor } anchors($pages{$to} // '');
	return;
}

my $links = 0;
for my $page (sort keys %pages)
{
	my @links =
	  grep { !/^https?:/ } $pages{$page} =~ /\]\(\s*([^)\s]+)\)/g;

	$links += @links;
	is(join("\n", map { look_at_link($page, $_) } @links), '', $page);
	ok( $page =~ /^(README|CHANGELOG)\.md$/ || $pages{'README.md'} =~ /\(\Q$page\E\)/,
		'... which README.md names');
}
cmp_ok($links, '>', 20, 'there are links');

# The words of a picture and of its text. How they are arranged depends on who
# draws it.
sub words
{
	my ($text) = @_;

	$text =~ s/&#160;/ /g;
	$text =~ s/&#(\d+);/chr($1)/ge;
	$text =~ s/&gt;/>/g;
	return join(' ', sort grep { $_ ne '' } split(/\s+/, $text));
}

my @pictures = glob("$top/docs/pictures/*.dot");
cmp_ok(scalar @pictures, '>', 1, 'there are pictures');
for my $file (@pictures)
{
	my $svg = $file =~ s/\.dot$/.svg/r;
	my $name = $svg =~ s/^\Q$top\E\///r;
	my @labels = slurp_file($file) =~ /\blabel="([^"]*)"/g;
	my @texts = slurp_file($svg) =~ m{<text\b[^>]*>([^<]*)</text>}g;

	is( words(join(' ', @texts)),
		words(join(' ', map { s/\\[nlr]/ /gr } @labels)),
		"$name is made from its text");
	ok( (grep { tidy("docs/$_") eq $name }
			  map { $pages{$_} =~ /!\[[^]]*\]\(([^)]*)\)/g } grep { /^docs/ } keys %pages),
		'... and shown');
}

# Would it notice?
is(look_at_link('README.md', 'docs/nowhere.md'),
	'README.md: docs/nowhere.md: there is no docs/nowhere.md', 'a page that is missing');
is(look_at_link('docs/security.md', '../README.md#limit'),
	'docs/security.md: ../README.md#limit: no such heading', 'a heading that is missing');
is(look_at_link('docs/security.md', '../README.md#one-session-per-server'),
	undef, '... and one that is there');

done_testing();
