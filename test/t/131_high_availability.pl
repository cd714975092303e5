# The statements of docs/high-availability.md that need no Patroni at work: its examples, locks
# on a standby and at a promotion, and fences after a failover that has lost transactions.
# make failover runs Patroni.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Docs;
use FindBin;
use IO::Socket::INET;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use lib "$FindBin::RealBin/../failover";
use Patroni;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $zk = ZkServer->new->start;
my ($patroni_yaml, $manifest) = code_blocks(Patroni::PAGE, 'yaml');

# Reads YAML as Patroni does.
sub read_yaml
{
	my ($text) = @_;
	my ($out, $error);

	IPC::Run::run(
		[
			'/usr/bin/python3', '-c',
			'import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)'
		],
		'<', \$text, '>', \$out, '2>', \$error) or die "YAML: $error\n";
	return @{ decode_json($out) };
}

# Patroni's configuration. Patroni resolves its names and connects to ZooKeeper, so they are
# replaced.
my ($bindir) = map { chomp; $_ } `"${\ ($ENV{PG_CONFIG} // 'pg_config') }" --bindir`;
my $yaml = $patroni_yaml;
my $hosts = $zk->hosts;

$yaml =~ s/a\.example\.com:\d+/'127.0.0.2:' . ZkServer::free_port()/ge;
$yaml =~ s/zk\d\.example\.com:2181/$hosts/g;
$yaml =~ s{/usr/lib/postgresql/\d+/bin}{$bindir};
$yaml =~ s{/var/lib/postgresql/\d+/main}{$dir/data};
append_to_file("$dir/patroni.yml", $yaml);
my ($out, $error);
ok(IPC::Run::run([ 'patroni', '--validate-config', "$dir/patroni.yml" ],
		'>', \$out, '2>', \$error), 'Patroni accepts the configuration');

# Patroni 3.2 looks up the name of this machine, which may be unknown, as in a chroot.
$error =~ s/^WARNING:\S*\s*Failed to obtain address: .*\n//gm;
is("$out$error", '', '... without a complaint');

# Its settings are those of a server, too.
my ($configuration) = read_yaml($patroni_yaml);
my %parameters = %{ $configuration->{bootstrap}{dcs}{postgresql}{parameters} };
my $prefix = $parameters{'zklock.path_prefix'};
my %conf = (
	%parameters,
	'zklock.hosts' => $hosts,
	wal_level => 'replica',
	max_wal_senders => 5,
	'zklock.session_timeout' => '10min');
like($parameters{$_}, qr/./, "$_ is set")
  for qw(shared_preload_libraries zklock.hosts zklock.session_mode zklock.session_timeout);
is($parameters{'zklock.hosts'}, $configuration->{zookeeper}{hosts}, 'one ensemble');
my $primary = new_node('primary', $hosts, %conf);
is($primary->safe_psql('postgres', "SHOW $_"), $conf{$_}, "$_ is in effect")
  for sort keys %parameters;

# Patroni's key of the primary
my $key = "/service/$configuration->{scope}/leader";
$zk->make_path($key =~ s{/leader$}{}r);
$primary->safe_psql('postgres', q(CREATE ROLE confined LOGIN; CREATE ROLE free LOGIN;
	ALTER ROLE free SET zklock.path_prefix = ''));
my %answer = map {
	my (undef, $stdout, $stderr) = $primary->psql(
		'postgres', "SELECT zk_lock_acquire('$key', mode => 'simple')",
		extra_params => [ '-U', $_ ]);
	($_ => "$stdout$stderr");
} qw(confined free);
like($answer{confined}, qr/permission denied for lock path/, "a role cannot take Patroni's key");
is($answer{free}, 't', '... but could without the prefix');
wait_until("Patroni's key is free", sub { !$zk->exists($key) });
is( $primary->safe_psql('postgres', "SET zklock.path_prefix = ''; SELECT zk_lock_acquire('$key', mode => 'simple')"),
	't', '... and a superuser can');

# The manifest has the form that the schema of CloudNativePG prescribes.
my ($cluster, $database) = read_yaml($manifest);
my %fields = (
	Cluster => [qw(imageName instances postgresql storage)],
	Database => [qw(cluster extensions name owner)]);
for my $resource ($cluster, $database)
{
	my $kind = $resource->{kind};

	is($resource->{apiVersion}, 'postgresql.cnpg.io/v1', "$kind: version");
	like($resource->{metadata}{name}, qr/^[a-z][a-z0-9-]*$/, "$kind: name");
	is_deeply([ sort keys %{ $resource->{spec} } ], $fields{$kind}, "$kind: fields");
}
my $spec = $cluster->{spec}{postgresql};
is_deeply([ sort keys %$spec ], [qw(extensions parameters shared_preload_libraries)],
	'Cluster: settings of PostgreSQL');
is_deeply($spec->{shared_preload_libraries}, ['zklock'], '... with the library');
is(ref($_) || 'string', 'string', '... and strings as values') for values %{ $spec->{parameters} };
my ($extension) = @{ $spec->{extensions} };
is_deeply(
	[ sort(keys %$extension), keys %{ $extension->{image} } ],
	[qw(image name reference)], 'Cluster: the volume');
is($database->{spec}{cluster}{name}, $cluster->{metadata}{name}, 'Database: its cluster');
is_deeply($database->{spec}{extensions}, [ { name => $extension->{name} } ], '... and extension');

# The volume has the directories that CloudNativePG expects, in its own directory.
my $install = slurp_file("$FindBin::RealBin/../../docs/install.md");
my $volume = "/extensions/$extension->{name}";
like($install, qr/^extension_control_path = '\$system:\Q$volume\E\/share'$/m, 'control files');
like($install, qr/^dynamic_library_path = '\$libdir:\Q$volume\E\/lib'$/m, '... and the library');

# A standby, with the same settings
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my %session = (
	primary => ZkTest->new($primary),
	standby => ZkTest->new($standby),
	'another one' => ZkTest->new($standby));
my $path = "$prefix/product";

is($session{primary}->query("SELECT zk_lock_acquire('$path')"), 't', 'held on the primary');
is($session{standby}->query("SELECT zk_lock_acquire('$path', '0')"), 'f', '... not free on the standby');
$session{standby}->start("SELECT zk_lock_acquire('$path')");
$session{standby}->wait_for_lock;
$session{primary}->query("SELECT zk_lock_release('$path')");
is($session{standby}->result, 't', '... whose turn comes');
like($session{standby}->query("SELECT zk_lock_fence('$path')"),
	qr/^ERROR:  25006/, '... without a fence');
is($session{primary}->query("SELECT zk_lock_acquire('$path', '0')"), 'f', '... not free on the primary');

# Advisory locks
$primary->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$_->query("SET zklock.advisory_path = '$prefix/advisory'; SET zklock.advisory_locks = 'cluster'")
  for @session{qw(primary standby)};
is($session{standby}->query('SELECT pg_try_advisory_lock(42)'),
	't', 'an advisory lock is held on the standby');
is($session{primary}->query('SELECT pg_try_advisory_lock(42)'), 'f', '... and not free on the primary');

# A failover that loses the last holder's fence. A holder elsewhere passes its token.
my $fence = q(SELECT zk_fence('/elsewhere', %d) > 0);
my $with_prefix = $fence =~ s/'\//'$prefix\//r;
my $ask = sub { ZkTest->new($_[0])->query(sprintf($with_prefix, $_[1])) };
is($ask->($primary, 5), 't', 'a holder passes its token');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$standby->append_conf('postgresql.conf', q(primary_conninfo = ''));
$standby->reload;
$primary->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM pg_stat_replication)');
is($ask->($primary, 7), 't', 'the next one, too');
like($ask->($primary, 5), qr/^ERROR:  40001/, '... after which the former one is refused');
$session{'another one'}->start("SELECT zk_lock_acquire('$path')");
$session{'another one'}->wait_for_lock;
$session{primary}->close;
$primary->stop('immediate');
$standby->promote;
is($ask->($standby, 5), 't', 'the new primary accepts it, which has lost the next one');
is($ask->($standby, 7), 't', '... and the next one after it');
like($ask->($standby, 5), qr/^ERROR:  40001/, '... and not the other way around');

# Sessions outlive the promotion, with locks and places.
is($session{standby}->query("SELECT zk_lock_held('$path')"), 't', 'a lock outlives the promotion');
is($session{standby}->query("SELECT zk_lock_fence('$path') > 0"), 't', '... and can be fenced');
$session{standby}->query("SELECT zk_lock_release('$path')");
is($session{'another one'}->result, 't', '... as does a place in the queue');

done_testing();
