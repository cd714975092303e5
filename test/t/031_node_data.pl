# Nodes describe the holder of a lock: no name can imitate another one or
# prevent a lock, and neither can data of other clients.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;

# Without local hand-over, each node describes its backend.
my $node = new_node('main', $zk->hosts, 'zklock.handover_time' => 0);
my $guard = q(SELECT zk_lock_guard('/names', '0'));

# Returns the data of the first node in the queue.
sub described
{
	my ($name) = $zk->children('/names');

	return $zk->get("/names/$name")->{data};
}

# Creates a database with another encoding.
sub create_database
{
	my ($name, $encoding) = @_;

	$node->safe_psql('postgres', qq(
		CREATE DATABASE "$name" ENCODING '$encoding'
		LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
	$node->safe_psql($name, 'CREATE EXTENSION zklock');
	return;
}

# Connects a session to another database.
sub connect_to
{
	my ($session, $name) = @_;

	$session->query(qq(\\connect "$name"\nSELECT 1));
	return;
}

create_database('an SQL\ASCII', 'SQL_ASCII');
create_database('latin', 'LATIN1');

# Application names that could be mistaken for other fields

my $rival = ZkTest->new($node)->connect;
my %quoted = (
	q(x pid=1 host=evil) => q('x pid=1 host=evil'),
	q(o'brien\\) => q('o\\'brien\\\\'),
	q() => q(''),
	q( ) => q(' '),
	q(a=b) => q('a=b'),
	q(app:1.0/x@y%z+a-b_C) => q(app:1.0/x@y%z+a-b_C));

for my $name (sort keys %quoted)
{
	my $session = ZkTest->new($node);
	my $literal = $name =~ s/'/''/gr;
	my $described = qr/host=\S+ port=${\ $node->port} pid=${\ $session->pid} database=postgres user=\S+ application=\Q$quoted{$name}\E/;

	$session->query("SET application_name = '$literal'");
	$session->query(q(SELECT zk_lock_acquire('/names')));
	like(described(), qr/^$described$/, "node quotes application name ($name)");
	like($rival->query($guard),
		qr/^DETAIL:  The lock is held by $described \(node/m,
		'... and the error shows the same');
	$session->close;
	wait_until('its lock is free', sub { !$zk->children('/names') });
}

# Names that are invalid in the encoding of the database

my $odd = q('b' || chr(255) || chr(9) || 'd');
my $latin = ZkTest->new($node);
my $utf8 = "m\303\274ller";

connect_to($latin, 'an SQL\ASCII');
is( $latin->query(
		"DO \$\$ BEGIN EXECUTE format('CREATE ROLE %I SUPERUSER LOGIN', $odd); END \$\$"
	),
	'',
	'role whose name is invalid in any encoding is created');
$node->safe_psql('postgres', qq(CREATE ROLE "$utf8" SUPERUSER LOGIN));

my %shown = (
	'an SQL\ASCII' => [ q('an SQL\\\\ASCII'), q('b??d'), qq('$utf8') ],
	'latin' => [ 'latin', qq('b\303\277?d'), qq('m\303\203\302\274ller') ],
	'postgres' => [ 'postgres', q('b??d'), qq('$utf8') ]);

for my $database (sort keys %shown)
{
	my ($name, @users) = @{ $shown{$database} };

	for my $user ("b\377\td", $utf8)
	{
		local $ENV{PGUSER} = $user;
		my $session = ZkTest->new($node);
		my $shown = shift @users;

		connect_to($session, $database);
		is($session->query(q(SELECT zk_lock_acquire('/names'))),
			't', "user $shown acquires a lock in database $name");
		like(described(), qr/ database=\Q$name\E user=\Q$shown\E app/,
			'... and the node shows both names');
		$session->close;
		wait_until('its lock is free', sub { !$zk->children('/names') });
	}
}

# Any data of other clients is shown in the expected error.

my %written = (
	"\377\376\0\1" => '??',
	"\37\213\10\0" => '???',
	"a\nERROR:  b\t\33[2J" => 'a?ERROR:  b??[2J',
	"c\302\2331m" => 'c??1m',
	'd' x 1023 . "\303\274" => 'd' x 1023 . '?');

for my $database (sort keys %shown)
{
	connect_to($rival, $database);
	$rival->connect;
	for my $text (sort keys %written)
	{
		my $other = ZkClient->new($zk->hosts);

		$other->create('/names/lock-', $text,
			ZkClient::EPHEMERAL | ZkClient::SEQUENCE);
		like(
			$rival->query($guard),
			qr/^ERROR:  55P03: .*\nDETAIL:  The lock is held by \Q$written{$text}\E \(node "lock-\d+"\)\.\nHINT:/,
			"another client's data is shown in $database as far as possible");
		$other->close;
	}
}

my $other = ZkClient->new($zk->hosts);
$other->create('/names/lock-', "\342\202\254 $utf8",
	ZkClient::EPHEMERAL | ZkClient::SEQUENCE);
for (
	[ 'latin', '??? m??ller' ],
	[ 'postgres', "\342\202\254 $utf8" ])
{
	connect_to($rival, $_->[0]);
	$rival->connect;
	$rival->query(q(SET client_encoding = 'UTF8'));
	like($rival->query($guard), qr/held by \Q$_->[1]\E \(/,
		"characters that $_->[0] cannot represent are replaced");
}

done_testing();
