# A temporary Pgpool-II in front of a primary and its standby; it takes the node's place in
# ZkTest->new. Clients connect to the given database, which must not be postgres: Pgpool-II
# does not keep connections to that. What it may read elsewhere it reads on the standby.

package PgPool;

use strict;
use warnings;

use Child;
use File::Temp qw(tempdir);
use Wait;
use ZkServer;

sub new
{
	my ($class, $database, @nodes) = @_;
	my $dir = tempdir(CLEANUP => 1);
	my $port = ZkServer::free_port();
	my %conf = (
		backend_clustering_mode => 'streaming_replication',
		listen_addresses => '',
		port => $port,
		# The first is the name of the second before version 4.4.
		socket_dir => $dir,
		unix_socket_directories => $dir,
		pcp_port => ZkServer::free_port(),
		pcp_socket_dir => $dir,
		pid_file_name => "$dir/pid",
		logdir => $dir,
		num_init_children => 2,
		max_pool => 1,
		sr_check_user => 'postgres',
		sr_check_database => 'postgres',
		sr_check_period => 1,
		map {
			("backend_hostname$_" => $nodes[$_]->host,
			"backend_port$_" => $nodes[$_]->port,
			"backend_weight$_" => $_)
		} 0 .. $#nodes);

	_write("$dir/conf", map { "$_ = '$conf{$_}'\n" } sort keys %conf);
	_write("$dir/$_") for qw(hba pcp);

	my $self = bless { dir => $dir, port => $port, database => $database }, $class;
	$self->{child} = Child->start("$dir/log", 'pgpool', '-n', '-f', "$dir/conf",
		'-a', "$dir/hba", '-F', "$dir/pcp");
	wait_until('Pgpool-II listens',
		sub { $self->{child}->check; -S "$dir/.s.PGSQL.$port" });
	return $self;
}

sub connstr
{
	my ($self) = @_;

	return "host=$self->{dir} port=$self->{port} dbname=$self->{database}";
}

sub stop
{
	my ($self) = @_;

	$self->{child}->stop('INT');
	return;
}

sub _write
{
	my ($file, @lines) = @_;

	open(my $fh, '>', $file) or die "$file: $!\n";
	print $fh @lines;
	close($fh) or die "$file: $!\n";
	return;
}

END
{
	my $status = $?;

	Child->stop_all;
	$? = $status;
}

1;
