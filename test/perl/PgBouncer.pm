# A temporary PgBouncer in front of a PostgreSQL server; it takes the node's
# place in ZkTest->new. The node is one of PostgreSQL::Test::Cluster or PgServer. %conf is for its configuration file.

package PgBouncer;

use strict;
use warnings;

use Child;
use File::Temp qw(tempdir);
use Wait;
use ZkServer;

sub new
{
	my ($class, $node, %conf) = @_;
	my $dir = tempdir(CLEANUP => 1);
	my $port = ZkServer::free_port();
	my $server = join(' ', map { "$_=${\ $node->$_}" } qw(host port));

	%conf = (
		listen_port => $port,
		unix_socket_dir => $dir,
		auth_type => 'trust',
		auth_file => "$dir/users",
		admin_users => 'postgres',
		%conf);
	_write("$dir/users", qq("postgres" ""\n"shop" ""\n));
	_write("$dir/ini", join("\n", '[databases]', "postgres = $server",
		'[pgbouncer]', (map { "$_ = $conf{$_}" } sort keys %conf), ''));

	my $self = bless { dir => $dir, port => $port }, $class;
	$self->{child} = Child->start("$dir/log", 'pgbouncer', "$dir/ini");
	wait_until('PgBouncer listens',
		sub { $self->{child}->check; -S "$dir/.s.PGSQL.$port" });
	return $self;
}

sub connstr
{
	my ($self, $database) = @_;

	return "host=$self->{dir} port=$self->{port} dbname=$database";
}

# Sends commands to its console.
sub console
{
	my ($self, @commands) = @_;

	for my $command (@commands)
	{
		system('psql', '-XqAt', '-U', 'postgres', '-c', $command,
			$self->connstr('pgbouncer')) == 0
		  or die "$command failed\n";
	}
	return;
}

sub stop
{
	my ($self) = @_;

	$self->{child}->stop('INT');
	return;
}

sub _write
{
	my ($file, $text) = @_;

	open(my $fh, '>', $file) or die "$file: $!\n";
	print $fh $text;
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
