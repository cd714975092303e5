# A new data directory for each server of the tests, without an initdb for each: all are
# copies of a template.
#
#	init_node(PostgreSQL::Test::Cluster->new('a'));

package Template;

use strict;
use warnings;

use Exporter qw(import);
use Once;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(init_node);

use constant BACKUP => 'template';

# As init() does without options.
sub init_node
{
	my ($node) = @_;
	my $self = bless {}, __PACKAGE__;

	made_once(BACKUP, \&_make);
	$node->init_from_backup($self, BACKUP);
	return;
}

# The following are what init_from_backup() wants to know of a node.
sub name
{
	return 'template';
}

sub backup_dir
{
	return $PostgreSQL::Test::Utils::tmp_check;
}

sub _make
{
	my ($path) = @_;
	my $node = PostgreSQL::Test::Cluster->new('template');

	$node->init;
	rename($node->data_dir, $path) or die "$path: $!\n";
	return;
}

1;
