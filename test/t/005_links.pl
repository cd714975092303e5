# Links between pages of the documentation are valid, its pictures have the words of
# the text that they are made from, and the tests that it names exist. test/README
# lists all tests.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use File::Basename;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my %pages = map { ($_ => slurp_file("$top/$_")) }
  map { s/^\Q$top\E\///r } glob("$top/*.md $top/docs/*.md");

# What the archive of a release does not have
my @left_out = slurp_file("$top/.gitattributes") =~ /^(\S+) export-ignore$/mg;

# The anchors that forges make from the headings of a page
sub anchors
{
	my ($page) = @_;

	return map { lc(s/[^\w\- ]//gr) =~ tr/ /-/r } $page =~ /^#+ (.*)$/mg;
}

# Removes "." and ".." from a path.
sub tidy
{
	my ($path) = @_;

	$path =~ s{^\./|(?<=/)\./}{}g;
	1 while $path =~ s{(?:^|(?<=/))[^/]+/\.\./}{};
	return $path;
}

# Returns the error in a link of a page, if any.
sub look_at_link
{
	my ($from, $link) = @_;
	my ($file, $anchor) = $link =~ /^([^#]*)#?(.*)$/;
	my $to = $file eq '' ? $from : tidy(dirname($from) . "/$file");

	return "$from: $link: archives leave out $to"
	  if grep { "/$to" =~ m{^\Q$_\E(/|$)} } @left_out;
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
		'$page: README.md links to it');
}
cmp_ok($links, '>', 20, 'links are found');

# The words of a picture or of its source, sorted: the arrangement depends on
# the version of the program that draws it.
sub words
{
	my ($text) = @_;

	$text =~ s/&#160;/ /g;
	$text =~ s/&#(\d+);/chr($1)/ge;
	$text =~ s/&gt;/>/g;
	return join(' ', sort grep { $_ ne '' } split(/\s+/, $text));
}

my @pictures = glob("$top/docs/pictures/*.dot");
cmp_ok(scalar @pictures, '>', 1, 'pictures are found');
for my $file (@pictures)
{
	my $svg = $file =~ s/\.dot$/.svg/r;
	my $name = $svg =~ s/^\Q$top\E\///r;
	my @labels = slurp_file($file) =~ /\blabel="([^"]*)"/g;
	my @texts = slurp_file($svg) =~ m{<text\b[^>]*>([^<]*)</text>}g;

	is( words(join(' ', @texts)),
		words(join(' ', map { s/\\[nlr]/ /gr } @labels)),
		"$name matches its source");
	ok( (grep { tidy("docs/$_") eq $name }
			  map { $pages{$_} =~ /!\[[^]]*\]\(([^)]*)\)/g } grep { /^docs/ } keys %pages),
		'$name is shown in a page');
}

# The names of tests in a text, such as 005_links
sub tests_in
{
	my ($text) = @_;
	my %tests = map { ($_ => 1) } $text =~ /\b([01]\d\d_[a-z]\w*)/g;

	return sort keys %tests;
}

my @tests = map { basename($_, '.pl') } glob("$top/test/t/*.pl");
my ($listed) = slurp_file("$top/test/README") =~ /^The tests in t:\n(.*)^The head of/ms;

is_deeply([ tests_in($listed) ], \@tests, 'test/README lists all tests, and no others');
for my $file ('Makefile', map { s/^\Q$top\E\///r }
	glob("$top/{src,test/unit}/README $top/*.md $top/docs/*.md"))
{
	my %missing = map { ($_ => 1) } tests_in(slurp_file("$top/$file"));

	delete @missing{@tests};
	is(join(' ', sort keys %missing), '', "$file: tests that it names exist");
}

# Check look_at_link() itself.
is(look_at_link('README.md', 'docs/nowhere.md'),
	'README.md: docs/nowhere.md: there is no docs/nowhere.md', 'a missing page is found');
is(look_at_link('README.md', '.github/workflows/test.yml'),
	'README.md: .github/workflows/test.yml: archives leave out .github/workflows/test.yml',
	'a file that archives leave out is found');
is(look_at_link('docs/security.md', 'reference.md#setting'),
	'docs/security.md: reference.md#setting: no such heading', 'a missing heading is found');
is(look_at_link('docs/security.md', '../README.md#one-session-per-server'),
	undef, 'an existing heading is accepted');

done_testing();
