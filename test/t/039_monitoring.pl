# The queries for Prometheus' postgres_exporter, which a real exporter runs as
# a role with few privileges, and the dashboard and the alerts that use their metrics.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

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

# Returns zklock's samples from an exporter, by name and labels without the
# server's label, and the types of the metrics. Dies if the exporter reports an
# error.
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
			die "the exporter reports an error: $_\n" if $1 != 0;
		}
	}
	return (\%samples, \%types);
}

# Returns samples of the server, by the metrics' names without their common
# part.
sub server
{
	my ($samples, @names) = @_;

	return [ map { $samples->{"zklock_$_\{\}"} } @names ];
}

# Returns samples of a database in the same way.
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

# Acquires a lock in a new database, and returns the OID of that database.
sub lock_in
{
	my ($node, $name) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name,
		q(CREATE EXTENSION zklock; SELECT zk_lock_acquire('/monitored/c')));
	return datid($node, $name);
}

# The role has the search_path that Debian's package sets.
my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'backend',    # which has sessions, and more locks than room
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

# The exporter would continue to run after this test.
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
  qw(immediate_total contended_total timeouts_total cancels_total
  deadlocks_total errors_total reentrant_total wait_seconds_total losses_total
  sessions_total reconnects_total expiries_total handovers_total hand_backs_total
  kept_grants_total);
is_deeply(of_database($samples, $here, 'postgres'),
	\%nothing, 'counters start at zero');
is_deeply(
	server(
		$samples,
		qw(held waiting lost longest_wait_seconds listed max_locks unlisted)),
	[ 0, 0, 0, 0, 0, 16, 0 ],
	'... no lock is listed, of a maximum of 16');
is( sprintf('%.2f', server($samples, 'stats_reset_timestamp_seconds')->[0]),
	$node->safe_psql(
		'postgres',
		'SELECT round(extract(epoch FROM stats_reset)::numeric, 2)
		 FROM zk_lock_stats'),
	'... and the counters start with the server');

# One session holds a lock, and one waits.
my ($holder, $waiter) = map { ZkTest->new($node) } (1, 2);
$holder->query(
	q(SELECT zk_lock_acquire('/monitored/a'), zk_lock_acquire('/monitored/a')));
$waiter->query(q(SELECT zk_lock_acquire('/monitored/a', '3s')));
$waiter->start(q(SELECT zk_lock_acquire('/monitored/a')));
wait_for_queue($zk, '/monitored/a', $holder, $waiter);
($samples) = scrape($port);
is_deeply(server($samples, qw(held waiting listed unlisted)),
	[ 1, 1, 2, 0 ], 'holder and waiter are counted');
cmp_ok(server($samples, 'longest_wait_seconds')->[0], '>',
	0, '... with the duration of the wait');
is_deeply(
	of_database($samples, $here, 'postgres'),
	{
		%nothing,
		immediate_total => 1,
		reentrant_total => 1,
		timeouts_total => 1,
		sessions_total => 2
	},
	'... and the calls of both');

# More locks than fit into shared memory
$holder->query(q(SELECT zk_lock_acquire_all(array_agg('/monitored/many/' || i))
	FROM generate_series(1, 20) AS i));
($samples) = scrape($port);
is_deeply(server($samples, qw(held waiting listed unlisted)),
	[ 15, 1, 16, 6 ], 'unlisted locks are counted, too');
$holder->query('SELECT zk_lock_release_all()');
$waiter->result;
($samples) = scrape($port);
is_deeply(server($samples, qw(held waiting listed unlisted longest_wait_seconds)),
	[ 1, 0, 1, 0, 0 ], 'waiter is counted as holder after its grant');
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
	'... and its wait time is counted');

# The server's session
is_deeply([ map { "$_" } @{ server($samples, qw(connected reload_pending)) } ],
	[ 'NaN', 0 ], "server's session does not exist at first");
$node->safe_psql('postgres',
	q(SET zklock.session_mode = 'server'; SELECT zk_lock_acquire('/monitored/server')));
($samples) = scrape($port);
is_deeply(server($samples, qw(connected reload_pending)),
	[ 1, 0 ], '... and is connected after a lock was acquired');
$zk->stop;
wait_until("the server's session is not connected",
	sub { ($samples) = scrape($port); server($samples, 'connected')->[0] eq '0' });
$zk->start;

# The alerts of docs/operations.md, in outages. Each sample is one of the exporter; promtool
# plays them as if one had been taken each minute.

# The rules of the page's table, by the metric of each
my %rules =
  map { /^`(.*?\b(zklock_\w+).*?)` \| ([^|]+) \|/ ? ($2 => { expr => $1, for => $3 }) : () }
  split(/\n/, slurp_file("$FindBin::RealBin/../../docs/operations.md"));
cmp_ok(scalar keys %rules, '>', 5, 'the page has alerts');

# Appends as many samples to the list, after this action.
sub sample
{
	my ($list, $n, $action) = @_;

	$action->() if $action;
	push @$list, map { (scrape($port))[0] } 1 .. $n;
	return;
}

# An attempt of a job that fails
sub failing_job
{
	my ($name) = @_;
	my (undef, undef, $err) =
	  $node->psql($name, q(SELECT zk_lock_acquire('/monitored/job')));

	$err =~ /^(psql:.*)?ERROR:  could not connect to ZooKeeper/ or die "the job has not failed: $err";
	return;
}

# For each sample, which of these alerts fire then: what promtool finds wrong with the claim
# that none does.
sub firing
{
	my ($list, @alerts) = @_;
	my $last = $#$list;
	my ($rules, $test) = map { "$tmp/$_.yml" } qw(rules test);
	my @firing;

	append_to_file(
		$rules,
		"groups:\n- name: zklock\n  rules:\n" . join(
			'',
			map {
				my $for = $rules{$_}{for} =~ s/ min$/m/r =~ s/ h$/h/r =~ s/^at once$/0m/r;

				"  - alert: $_\n    expr: $rules{$_}{expr}\n    for: $for\n"
			} sort keys %rules)) if !-e $rules;
	unlink($test);
	append_to_file(
		$test,
		"rule_files: [$rules]\ntests:\n- interval: 1m\n  input_series:\n" . join(
			'',
			map {
				my $name = $_;
				my @values = map { $_->{"$name\{\}"} } @$list;

				"  - series: $name\n    values: '@values'\n" =~ s/\bnan\b/NaN/gir
			} sort keys %rules)
		  . "  alert_rule_test:\n"
		  . join(
			'',
			map {
				my $alert = $_;

				map { "  - {eval_time: ${_}m, alertname: $alert, exp_alerts: []}\n" } 0 .. $last
			} @alerts));
	my $out = `promtool test rules $test 2>&1`;
	note($out) if $out !~ /SUCCESS|FAILED/;
	while ($out =~ /alertname: (\w+), time: (\S+),/g)
	{
		my ($alert, $time) = ($1, $2);
		my $minutes = ($time =~ /(\d+)h/ ? 60 * $1 : 0) + ($time =~ /(\d+)m/ ? $1 : 0);

		$firing[$minutes]{$alert} = 1;
	}
	return map { join(' ', sort keys %{ $_ // {} }) } @firing[ 0 .. $last ];
}

my $promtool = grep { -x "$_/promtool" } split(/:/, $ENV{PATH});
my ($connected, $errors) = qw(zklock_connected zklock_errors_total);
$node->safe_psql('postgres', $_)
  for q(ALTER SYSTEM SET zklock.session_mode = 'server'),
  q(ALTER SYSTEM SET zklock.connect_timeout = '1s'), q(SELECT pg_reload_conf()),
  q(CREATE DATABASE job);
$node->safe_psql('job', 'CREATE EXTENSION zklock');

# A server without work, then with a client that tries now and then, then with a job each ten
# minutes
wait_until('the server has a session although nobody takes a lock',
	sub { ($samples) = scrape($port); server($samples, 'connected')->[0] eq '1' });
my @samples;
sample(\@samples, 5);
$zk->stop;
sample(\@samples, 0, sub { wait_until('the outage is noticed',
	sub { ($samples) = scrape($port); server($samples, 'connected')->[0] eq '0' }) });
my $until = time() + 4;    # several attempts
wait_until('the outage lasts',
	sub { sample(\@samples, 1); time() >= $until && @samples >= 15 });
my $idle = @samples;
sample(\@samples, 1, sub { failing_job('postgres') }) for 1 .. 5;
my $job = @samples;
sample(\@samples, 10, sub { failing_job('postgres') }) for 1 .. 3;
my $back = @samples;
is_deeply(
	[ map { "@{server($_, 'connected')}" } @samples[ 0 .. $back - 1 ] ],
	[ (1) x 5, (0) x ($back - 5) ],
	'server is not connected throughout an outage, whoever tries');
is(server($samples[$idle - 1], 'expiries_total')->[0] - server($samples[0], 'expiries_total')->[0],
	1, '... in which one session was lost, and attempts to begin one are none');
is(server($samples[$back - 1], 'errors_total')->[0] - server($samples[0], 'errors_total')->[0],
	8, '... and each failed attempt of a client is counted');
$zk->start;
wait_until('the server is connected again',
	sub { ($samples) = scrape($port); server($samples, 'connected')->[0] eq '1' });
sample(\@samples, 3);
SKIP:
{
	skip('there is no promtool', 2) if !$promtool;
	my @firing = firing(\@samples, $connected, $errors);

	is_deeply(
		[ @firing[ 0 .. $idle - 1 ] ],
		[ ('') x 6, ($connected) x ($idle - 6) ],
		'alert tells of the outage on a server without work, after a minute');
	is_deeply(
		[ @firing[ $idle .. $#samples ] ],
		[ ("$connected $errors") x ($back - $idle), ($errors) x 3 ],
		'... and without a break with a client, and a job each ten minutes');
}

# The same job, with a session for each backend. Its database had no counters before.
$node->safe_psql('postgres', $_)
  for q(ALTER SYSTEM RESET zklock.session_mode), q(SELECT pg_reload_conf());
@samples = ();
sample(\@samples, 5);
$zk->stop;
sample(\@samples, 10, sub { failing_job('job') }) for 1 .. 3;
SKIP:
{
	skip('there is no promtool', 1) if !$promtool;
	is_deeply(
		[ firing(\@samples, $errors) ],
		[ ('') x 5, ($errors) x 30 ],
		'alert tells of a job that fails each ten minutes');
}
$zk->start;

# Counters of dropped databases are kept separately.
my @gone = map { lock_in($node, "gone_$_") } (1, 2);
$node->safe_psql('postgres', "DROP DATABASE gone_$_") for (1, 2);
($samples) = scrape($port);
is_deeply(
	[ map { of_database($samples, $_, '') } @gone ],
	[ ({ %nothing, immediate_total => 1, sessions_total => 1 }) x 2 ],
	'counters of two dropped databases are kept apart');

# The name of a metric shows its type.
is_deeply(
	$types,
	{
		map { $_ => /_total$/ ? 'counter' : 'gauge' }
		map { s/\{.*//r } keys %$samples
	},
	'types of metrics match their names');

# The dashboard uses the metrics.
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
	[], "... all its queries use zklock's metrics");
is_deeply([ grep { !$exists{$_} } sort keys %used ],
	[], '... it uses no unknown metrics');
is_deeply(
	[ grep { !$used{$_} } sort keys %exists ],
	[
		qw(zklock_database_reentrant_total
		  zklock_deadlocks_total zklock_errors_total zklock_expiries_total zklock_losses_total
		  zklock_stats_reset_timestamp_seconds)
	],
	'... it uses all metrics but one, and those that are for alerts');
my @datasources =
  map { $_->{datasource}{uid} } @panels, map { @{ $_->{targets} } } @panels;
is_deeply([ grep { $_ ne '${datasource}' } @datasources ],
	[], '... it uses the selected data source');

done_testing();
