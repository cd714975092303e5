# The C files have the layout of pgindent, where that tool is installed.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use FindBin;
use Test::More;

my $indent = "$FindBin::RealBin/../indent";

plan skip_all => 'there is no pgindent of PostgreSQL 17 or 18' if system("$indent --look >/dev/null");
is(qx($indent --check 2>&1), '', 'make indent would change no file');
done_testing();
