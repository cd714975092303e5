# The queries for Prometheus' postgres_exporter, scraped by the real one as a role
# that may do no more than look, and the dashboard that is made of them.
#
# Runs once: of backends that have sessions, and of more locks than room.

use strict;
use warnings;

use Child;
use FindBin;
use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

my ($program) = grep { -x } map {
	my $dir = $_;
	map { "$dir/$_" } qw(prometheus-postgres-exporter postgres_exporter)
} split(/:/, $ENV{PATH});
plan skip_all => "there is no Prometheus' postgres_exporter" if !$program;

my $monitoring = "$FindBin::RealBin/../../sql/monitoring";
my $tmp = PostgreSQL::Test::Utils::tempdir_short();

# The samples that an exporter has of zklock, by name and labels but for the
# server's, and the metrics' types. Dies unless the exporter has found all well.
sub scrape
{
	my ($port) = @_;
	my $answer = HTTP::Tiny->new(timeout => $Wait::timeout)
	  ->get("http://127.0.0.1:$port/metrics");
	my (%samples, %types);

	die "scrape failed: $answer->{status} $answer->{content}\n"
	  if !$answer->{success};
	for (split(/\n/, $answer->{content}))
	{
		if (/^# TYPE (zklock\w*) (\w+)$/)
		{
			$types{$1} = $2;
		}
		elsif (/^(zklock\w*)\{(.*)\} (\S+)$/)
		{
			my ($name, $labels, $value) = ($1, $2, $3);

			$labels =~ s/,?\bserver="[^"]*"//;
			$samples{"$name\{$labels\}"} = $value + 0;
		}
		elsif (/^pg_exporter_(?:last_scrape_error|user_queries_load_error)\b.* (\S+)$/)
		{
			die "the exporter has trouble: $_\n" if $1 != 0;
		}
	}
	return (\%samples, \%types);
}

# What is told of the server, by the metrics' names without what all have in common
sub server
{
	my ($samples, @names) = @_;

	return [ map { $samples->{"zklock_$_\{\}"} } @names ];
}

# The same for a database
sub of_database
{
	my ($samples, $datid, $datname) = @_;
	my $labels = qq({datid="$datid",datname="$datname"});

	return {
		map { /^zklock_database_(\w+)\Q$labels\E$/ ? ($1 => $samples->{$_}) : () }
		  keys %$samples
	};
}

sub datid
{
	my ($node, $name) = @_;

	return $node->safe_psql('postgres',
		"SELECT oid FROM pg_database WHERE datname = '$name'");
}

# Takes a lock, once, in a database of its own that has it then. Returns its OID.
sub lock_in
{
	my ($node, $name) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name,
		q(CREATE EXTENSION zklock; SELECT zk_lock_acquire('/monitored/c')));
	return datid($node, $name);
}

# The role's search_path is what the package in Debian has it be.
my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session' => 'backend',    # it has sessions, and more locks than room
	'zklock.max_locks' => 16);
$node->safe_psql('postgres',
	q(CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
	  ALTER ROLE watcher SET search_path = watcher, pg_catalog));

my $port = ZkServer::free_port();
$ENV{DATA_SOURCE_NAME} =
  $node->connstr('postgres') . ' user=watcher sslmode=disable';
my $exporter = Child->start(
	"$tmp/exporter.log", $program,
	"--web.listen-address=127.0.0.1:$port", '--disable-default-metrics',
	'--disable-settings-metrics',
	"--extend.query-path=$monitoring/postgres_exporter.yml");

# It would stay, however this ends.
END
{
	my $status = $?;

	Child::stop_all();
	$? = $status;
}

my ($samples, $types) = @{
	wait_until('the exporter answers',
		sub { $exporter->check; eval { [ scrape($port) ] } })
};

my $here = datid($node, 'postgres');
my %nothing = map { $_ => 0 }
  qw(immediate_total contended_total timeouts_total cancels_total errors_total
  reentrant_total wait_seconds_total losses_total sessions_total
  reconnects_total expiries_total handovers_total hand_backs_total);
is_deeply(of_database($samples, $here, 'postgres'),
	\%nothing, 'nothing has been done yet');
is_deeply(
	server(
		$samples,
		qw(held waiting lost longest_wait_seconds listed max_locks unlisted)),
	[ 0, 0, 0, 0, 0, 16, 0 ],
	'... and there is room for 16 locks');
is( sprintf('%.2f', server($samples, 'stats_reset_timestamp_seconds')->[0]),
	$node->safe_psql(
		'postgres',
		'SELECT round(extract(epoch FROM stats_reset)::numeric, 2)
		 FROM zk_lock_stats'),
	'... since the server was started');

# One holds, one waits
my ($holder, $waiter) = map { ZkTest->new($node) } (1, 2);
$holder->query(
	q(SELECT zk_lock_acquire('/monitored/a'), zk_lock_acquire('/monitored/a')));
$waiter->query(q(SELECT zk_lock_acquire('/monitored/a', '3s')));
$waiter->start(q(SELECT zk_lock_acquire('/monitored/a')));
wait_for_queue($zk, '/monitored/a', $holder, $waiter);
($samples) = scrape($port);
is_deeply(server($samples, qw(held waiting listed unlisted)),
	[ 1, 1, 2, 0 ], 'who holds a lock and who waits');
cmp_ok(server($samples, 'longest_wait_seconds')->[0], '>', 0, '... and how long');
is_deeply(
	of_database($samples, $here, 'postgres'),
	{
		%nothing,
		immediate_total => 1,
		reentrant_total => 1,
		timeouts_total => 1,
		sessions_total => 2
	},
	'... and what has been done');

# There is no room for all.
$holder->query(q(SELECT zk_lock_acquire_all(array_agg('/monitored/many/' || i))
	FROM generate_series(1, 20) AS i));
($samples) = scrape($port);
is_deeply(server($samples, qw(held waiting listed unlisted)),
	[ 15, 1, 16, 6 ], 'more locks than there is room for');
$holder->query('SELECT zk_lock_release_all()');
$waiter->result;
($samples) = scrape($port);
is_deeply(server($samples, qw(held waiting listed unlisted longest_wait_seconds)),
	[ 1, 0, 1, 0, 0 ], 'who waited has the lock');
my $done = of_database($samples, $here, 'postgres');
my $waited = $node->safe_psql('postgres', 'SELECT wait_time FROM zk_lock_stats');
is_deeply(
	$done,
	{
		%nothing,
		immediate_total => 21,
		contended_total => 1,
		wait_seconds_total => $waited / 1000,
		reentrant_total => 1,
		timeouts_total => 1,
		sessions_total => 2
	},
	'... and with how much patience');

# The server's session
is_deeply([ map { "$_" } @{ server($samples, qw(connected reload_pending)) } ],
	[ 'NaN', 0 ], 'there is no session of the server');
$node->safe_psql('postgres',
	q(SET zklock.session = 'server'; SELECT zk_lock_acquire('/monitored/server')));
($samples) = scrape($port);
is_deeply(server($samples, qw(connected reload_pending)),
	[ 1, 0 ], '... and now there is one');
$zk->stop;
wait_until('it has no connection',
	sub { ($samples) = scrape($port); server($samples, 'connected')->[0] eq '0' });
$zk->start;

# What was done in databases that are no more is still apart.
my @gone = map { lock_in($node, "gone_$_") } (1, 2);
$node->safe_psql('postgres', "DROP DATABASE gone_$_") for (1, 2);
($samples) = scrape($port);
is_deeply(
	[ map { of_database($samples, $_, '') } @gone ],
	[ ({ %nothing, immediate_total => 1, sessions_total => 1 }) x 2 ],
	'dropped databases do not get into the way of each other');

# Names say what kind of metric it is.
is_deeply(
	$types,
	{
		map { $_ => /_total$/ ? 'counter' : 'gauge' }
		map { s/\{.*//r } keys %$samples
	},
	'the types of all metrics');

# The dashboard shows what there is.
my %exists = map { s/\{.*//r => 1 } keys %$samples;
my $dashboard = decode_json(slurp_file("$monitoring/grafana.json"));
my @panels = @{ $dashboard->{panels} };
my @queries = (
	(
		map { ref $_->{query} ? $_->{query}{query} : () }
		  @{ $dashboard->{templating}{list} }
	),
	(
		map { $_->{expr} }
		map { @{ $_->{targets} } } @panels
	));
my %used = map { $_ => 1 } map { /\b(zklock_\w+)/g } @queries;

cmp_ok(scalar @panels, '>', 5, 'the dashboard has panels');
is_deeply([ grep { !/\bzklock_/ } @queries ],
	[], '... whose queries all are about zklock');
is_deeply([ grep { !$exists{$_} } sort keys %used ],
	[], '... and use nothing that is not there');
is_deeply(
	[ grep { !$used{$_} } sort keys %exists ],
	[
		qw(zklock_database_reentrant_total
		  zklock_stats_reset_timestamp_seconds)
	],
	'... and most of what is');
my @datasources =
  map { $_->{datasource}{uid} } @panels, map { @{ $_->{targets} } } @panels;
is_deeply([ grep { $_ ne '${datasource}' } @datasources ],
	[], '... of the data source that is chosen');

done_testing();
