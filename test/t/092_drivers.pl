# The SQL of docs/drivers.md, and its snippets with real drivers; asyncpg's pool with that of
# docs/pooling.md
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Child;
use Docs;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkProxy;
use ZkServer;
use ZkTest;

my $page = 'docs/drivers.md';
my $trials = "$FindBin::RealBin/../drivers";
my $tmp = PostgreSQL::Test::Utils::tempdir_short();
my $zk = ZkServer->new->start;

# The JDBC driver needs TCP. With confirm_commit, the next commit notices that
# a lock is lost.
my $node = new_node(
	'main', $zk->hosts,
	listen_addresses => '127.0.0.1',
	'zklock.confirm_commit' => 'always');

sub stock
{
	return $node->safe_psql('postgres', 'SELECT stock FROM product WHERE id = 42');
}

# Returns the only snippet of the page in a language.
sub snippet
{
	my ($language) = @_;
	my @snippets = code_blocks($page, $language);

	is(scalar @snippets, 1, "page has one snippet in $language");
	return $snippets[0];
}

# The SQL
my %session = map { $_ => ZkTest->new($node) } 'a client', 'another client';
my @blocks = sql_blocks($page);

# Sessions that use a short timeout have to be connected before.
$_->query(q(SELECT zk_lock_acquire('/hello'), zk_lock_release('/hello')))
  for values %session;

cmp_ok(scalar @blocks, '>', 5, 'page has SQL statements');
for my $block (@blocks)
{
	run_documented($session{ $block->{as} }, $_) for @{ $block->{statements} };
}
$_->close for values %session;

# A product to sell, and one whose lock another session holds
$node->safe_psql('postgres',
	'CREATE TABLE product (id int PRIMARY KEY, stock int);
	 INSERT INTO product VALUES (42, 10), (7, 10)');
my $other = ZkTest->new($node);
$other->query(q(SELECT zk_lock_acquire('/shop/product_7')));

# psql
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	my $script = snippet('sh');

	my ($out, $err) = run_command([ 'sh', '-c', $script ]);
	is("$out$err", 't', 'psql acquires the lock');
	is(stock(), 9, '... and sells');

	$script =~ s/product_42/product_7/ or die 'there is no product_42';
	$script =~ s/'5s'/'2s'/ or die 'there is no 5s';
	command_fails_like([ 'sh', '-c', $script ],
		qr/could not obtain lock/, '... and fails without the lock');
	is(stock(), 9, '... and does not sell');
}

# Runs a trial program, and deletes its lock's node the first time that it
# holds the lock. Returns the program's results.
sub try_out
{
	my ($name, @command) = @_;
	my $child = Child->start("$tmp/$name.log", @command);
	my $before = stock();

	for my $time (1, 2)
	{
		wait_until(
			"$name holds the lock for the ${time}th time",
			sub {
				$child->check;
				(() = $child->output =~ /^holding$/mg) == $time;
			});
		if ($time == 1)
		{
			$zk->delete("/shop/product_42/$_") for $zk->children('/shop/product_42');
		}
		$child->say('go on');
	}
	$child->finish($Wait::timeout);
	is(stock(), $before - 2, "$name has sold twice");
	return { $child->output =~ /^(.*?): (.*)$/mg };
}

# psycopg
append_to_file("$tmp/shop.py", snippet('python'));
{
	local $ENV{PYTHONPATH} = $tmp;
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

	is_deeply(
		try_out(
			'psycopg', '/usr/bin/python3', "$trials/psycopg_trial.py",
			$node->connstr('postgres')),
		{
			locks => '0',
			tries => '2',
			deadlocks => '2',
			busy => '55P03 LockNotAvailable False',
			typed => 'True',
			none => 'True',
			list => 'True',
			seconds => '42883 UndefinedFunction False',
			select => 'True',
			call => 'False',
			cancelled => '57014 QueryCanceled False',
			away => '08001 SqlclientUnableToEstablishSqlconnection False',
			good => '1',
			psycopg2 => 'True',
			'psycopg2 list' => 'True',
			'psycopg2 busy' => '55P03'
		},
		'psycopg behaves as documented');
}

# JDBC
append_to_file("$tmp/Shop.java", snippet('java'));
my $driver = '/usr/share/java/postgresql.jar';
my @jvm = qw(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData);
Child->run("$tmp/javac.log", $Wait::timeout, 'javac', (map { "-J$_" } @jvm),
	'-d', $tmp, '-cp', $driver, "$tmp/Shop.java", "$trials/JdbcTrial.java");
is_deeply(
	try_out(
		'JDBC', 'java', '-Xmx128m', @jvm, '-cp', "$tmp:$driver", 'JdbcTrial',
		"jdbc:postgresql://127.0.0.1:${\ $node->port}/postgres?ApplicationName=trial"),
	{
		locks => '0',
		tries => '2',
		deadlocks => '2',
		busy => '55P03',
		strings => '42883',
		interval => 't',
		none => 't',
		array => 't',
		cancelled => '57014',
		call => 't',
		escape => '42809',
		away => '08001',
		good => 'true 1',
		unspecified => 't'
	},
	'JDBC behaves as documented');

wait_for_queue($zk, '/shop/product_7', $other);
pass('no other node is left in the queue');

# asyncpg's pool
append_to_file("$tmp/pool.py", join('', code_blocks('docs/pooling.md', 'python')));
my $proxy = ZkProxy->new($zk->hosts);
my $pooled = new_node('pooled', $proxy->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.advisory_locks' => 'cluster',
	'zklock.session_timeout' => '4s');
$pooled->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
{
	local $ENV{PYTHONPATH} = $tmp;
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
	my ($host, $port) = ($pooled->host, $pooled->port);
	my $child = Child->start("$tmp/asyncpg.log", '/usr/bin/python3', "$trials/asyncpg_trial.py",
		"postgresql:///postgres?host=$host&port=$port");

	wait_until('asyncpg holds the lock', sub { $child->check; $child->output =~ /^holding$/m });
	$proxy->refuse;
	$proxy->cut;
	$child->finish($Wait::timeout);
	is_deeply(
		{ $child->output =~ /^(.*?): (.*)$/mg },
		{ default => '/other', class => 'none', told => 'True', new => 'True' },
		"asyncpg's pool behaves as documented");
}

done_testing();
