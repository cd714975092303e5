# The flash sale of the demo, without the simulated work: sales a second on one
# server, and on two, where the tables of the second are foreign tables of the
# first.

package Sales;

use strict;
use warnings;

use Transactions;

use constant { STOCK => 10_000_000, CLIENTS => 8 };

sub measure
{
	my ($arena) = @_;
	my @servers = map {
		$arena->new_server("sale $_", $arena->hosts('loopback'),
			cluster_name => $_, port => 5432 + ord($_))
	} qw(A B);
	my ($a, $b) = @servers;

	open(my $fh, '<', "$arena->{tmp}/flash_sale.sql")
	  or die "flash_sale.sql: $!\n";
	my $sql = join('', grep { !/pg_sleep/ } <$fh>);
	$a->psql('-c', $sql);
	$b->psql('-c', <<"EOSQL", '-c', "SET client_min_messages = warning; $sql");
CREATE EXTENSION postgres_fdw;
CREATE SERVER a FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '$a->{dir}', port '$a->{port}', dbname 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER a OPTIONS (user 'postgres');
IMPORT FOREIGN SCHEMA public LIMIT TO (product, sale) FROM SERVER a INTO public;
EOSQL
	for my $round (1 .. $arena->{rounds})
	{
		_sell($arena, 'one server', 'advisory', $round, $a);
		for ($arena->modes)
		{
			my ($name, $settings) = @$_;

			local $ENV{PGOPTIONS} = Arena::options($settings);
			_sell($arena, 'one server', $name, $round, $a);
			_sell($arena, 'two servers', $name, $round, $a, $b);
		}
	}
	$arena->show("sales on $_", 'loopback', CLIENTS) for 'one server', 'two servers';
	$_->stop for @servers;
	return;
}

sub _sell
{
	my ($arena, $where, $name, $round, @servers) = @_;
	my $lock = $name eq 'advisory' ? 'advisory' : 'zookeeper';
	my $seconds = Transactions::SECONDS();
	my $a = $servers[0];

	$a->psql('-c', 'TRUNCATE sale',
		'-c', 'UPDATE product SET stock = ' . STOCK . ' WHERE id = 1');
	my @pgbench = map {
		Transactions::start($arena, $_, CLIENTS / @servers,
			"SELECT reduce_stock(1, '$lock')",
			'-T', $seconds, '--max-tries=1000')
	} @servers;
	$_->finish($seconds + 120) for @pgbench;

	my ($sold, $left) = split(/\|/,
		$a->psql('-c', 'SELECT count(*), (SELECT stock FROM product WHERE id = 1)
			FROM sale'));
	die "$sold sold, and " . (STOCK - $left) . " taken from the stock\n"
	  if $sold != STOCK - $left;
	$arena->note("sales on $where", 'sales a second', 'loopback', CLIENTS, $name,
		$round, $sold / $seconds);
	return;
}

1;
