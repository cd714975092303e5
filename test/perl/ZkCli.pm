# ZooKeeper's command-line client, for commands of an administrator.

package ZkCli;

use strict;
use warnings;

use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use ZkServer;

our @EXPORT = qw(zkcli);

# Sends commands to a server, and returns the output.
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
