# A new data directory for each server of the tests, without an initdb for each: the
# first file that needs one makes a template in the directory of the test data, and all
# copy that.
#
#	init_node(PostgreSQL::Test::Cluster->new('a'));

package Template;

use strict;
use warnings;

use Exporter qw(import);
use Fcntl qw(LOCK_EX);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(init_node);

use constant BACKUP => 'template';

# As init() does without options.
sub init_node
{
	my ($node) = @_;
	my $self = bless {}, __PACKAGE__;

	$self->_make;
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

# Makes it unless it is there. Tests that run at the same time wait for it.
sub _make
{
	my ($self) = @_;
	my $path = $self->backup_dir . '/' . BACKUP;

	open(my $lock, '>', "$path.lock") or die "$path.lock: $!\n";
	flock($lock, LOCK_EX) or die "$path.lock: $!\n";
	return if -d $path;

	my $node = PostgreSQL::Test::Cluster->new('template');
	$node->init;
	rename($node->data_dir, $path) or die "$path: $!\n";
	return;
}

1;
