# What nodes say of who holds a lock: names of all kinds cannot pretend to be
# something else, nor keep anybody from locking; nor can what other clients write.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
my $guard = q(SELECT zk_lock_guard('/names', '0'));

# The text of the first node in line
sub described
{
	my ($name) = $zk->children('/names');

	return $zk->get("/names/$name")->{data};
}

# A database of another encoding
sub create_database
{
	my ($name, $encoding) = @_;

	$node->safe_psql('postgres', qq(
		CREATE DATABASE "$name" ENCODING '$encoding'
		LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
	$node->safe_psql($name, 'CREATE EXTENSION zklock');
	return;
}

# Has a session go on in another database.
sub connect_to
{
	my ($session, $name) = @_;

	$session->query(qq(\\connect "$name"\nSELECT 1));
	return;
}

create_database('an SQL\ASCII', 'SQL_ASCII');
create_database('latin', 'LATIN1');

# A name that looks like something else

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
	my $said = qr/host=\S+ port=${\ $node->port} pid=${\ $session->pid} database=postgres user=\S+ application=\Q$quoted{$name}\E/;

	$session->query("SET application_name = '$literal'");
	$session->query(q(SELECT zk_lock_acquire('/names')));
	like(described(), qr/^$said$/, "an application named ($name)");
	like($rival->query($guard),
		qr/^DETAIL:  The lock is held by $said \(node/m,
		'... is shown as that');
	$session->close;
	wait_until('its lock is free', sub { !$zk->children('/names') });
}

# Names that are no text in the encoding of the database

my $odd = q('b' || chr(255) || chr(10) || 'd');
my $latin = ZkTest->new($node);
my $utf8 = "m\303\274ller";

connect_to($latin, 'an SQL\ASCII');
is( $latin->query(
		"DO \$\$ BEGIN EXECUTE format('CREATE ROLE %I SUPERUSER LOGIN', $odd); END \$\$"
	),
	'',
	'a role with a name of no encoding');
$node->safe_psql('postgres', qq(CREATE ROLE "$utf8" SUPERUSER LOGIN));

my %shown = (
	'an SQL\ASCII' => [ q('an SQL\\\\ASCII'), q('b??d'), qq('$utf8') ],
	'latin' => [ 'latin', qq('b\303\277?d'), qq('m\303\203\302\274ller') ],
	'postgres' => [ 'postgres', q('b??d'), qq('$utf8') ]);

for my $database (sort keys %shown)
{
	my ($name, @users) = @{ $shown{$database} };

	for my $user ("b\377\nd", $utf8)
	{
		local $ENV{PGUSER} = $user;
		my $session = ZkTest->new($node);
		my $shown = shift @users;

		connect_to($session, $database);
		is($session->query(q(SELECT zk_lock_acquire('/names'))),
			't', "a lock for $shown in $name");
		like(described(), qr/ database=\Q$name\E user=\Q$shown\E app/,
			'... who is shown as that');
		$session->close;
		wait_until('its lock is free', sub { !$zk->children('/names') });
	}
}

# Whatever other clients write, the error is the one that was meant.

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
			"in $database what another client wrote is shown, if it can be");
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
		"in $_->[0] what cannot be converted is not");
}

done_testing();
