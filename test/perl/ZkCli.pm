# ZooKeeper's own command line, for what an administrator does with it.

package ZkCli;

use strict;
use warnings;

use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use ZkServer;

our @EXPORT = qw(zkcli);

# Gives commands to a server and returns what was printed.
sub zkcli
{
	my ($zk, @commands) = @_;
	my $out = '';

	IPC::Run::run(
		[
			'java', '-Dorg.slf4j.simpleLogger.defaultLogLevel=error',
			'-cp', $ZkServer::class_path,
			'org.apache.zookeeper.ZooKeeperMain',
			'-server', $zk->hosts
		],
		'<', \join('', map { "$_\n" } @commands, 'quit'),
		'>&', \$out) or die "zkCli failed: $out\n";
	return $out;
}

1;
