# Patroni and its PostgreSQL server, with the configuration of docs/high-availability.md.
#
#	my $patroni = Patroni->new($dir, 'a', $address, $bindir, %change);
#	$patroni->start;
#
# $dir, which is made, must be in a private directory. Patroni and the server listen at
# $address, which no other server uses, and the server also at a socket in $dir.

package Patroni;

use strict;
use warnings;

use Child;
use Docs;
use HTTP::Tiny;
use JSON::PP;
use Wait;

use constant {
	PAGE => 'docs/high-availability.md',
	PG_PORT => 5432,
	API_PORT => 8008,
};

# Read before the program steps down to a user who may not be able to
my ($page) = code_blocks(PAGE, 'yaml');

# %change has the settings whose values differ from the page: a hash of settings by section,
# where "dcs", "all" (PostgreSQL's settings of all servers) and "own" (those of this one)
# may have more than the page does.
sub new
{
	my ($class, $dir, $name, $address, $bindir, %change) = @_;
	my $self = bless {
		dir => $dir,
		name => $name,
		address => $address,
		bindir => $bindir
	}, $class;

	mkdir($dir) or die "$dir: $!\n";
	open(my $fh, '>', "$dir/patroni.yml") or die "$dir: $!\n";
	print $fh $self->_configuration(%change);
	close($fh) or die "$dir: $!\n";
	return $self;
}

# The configuration of the page with these settings
sub _configuration
{
	my ($self, %change) = @_;
	my ($dir, $address) = @$self{qw(dir address)};
	my $text = $page;
	my $set = sub {
		my ($pattern, $value) = @_;

		$text =~ s/$pattern/$value/g or die "the page has no $pattern\n";
	};
	my $lines = sub {
		my ($indent, $settings) = @_;

		return join('', map { ' ' x $indent . "$_: '$settings->{$_}'\n" } sort keys %$settings);
	};

	$set->(qr/^name: a$/m, "name: $self->{name}");
	$set->(qr/a\.example\.com/m, $address);
	$set->(qr/(?<=hosts: )zk1\S*$/m, $change{hosts});
	$set->(qr/^ +(?:ttl|loop_wait|retry_timeout|synchronous_mode): .*\n/m, '');
	$set->(qr/^  dcs:\n/m, "  dcs:\n" . $lines->(4, $change{dcs}) =~ tr/'//dr);
	$set->(qr/^ +zklock\.(?!hosts).*\n/m, '');
	$set->(qr/^      parameters:\n/m, "      parameters:\n" . $lines->(8, $change{all}));
	$set->(qr/^  initdb:\n/m, "  initdb:\n    - no-sync\n");
	$set->(qr/^    - (?:local|host) .*\n/m, '');
	$set->(qr/^  pg_hba:\n/m,
		"  pg_hba:\n    - local all all trust\n    - host all all 127.0.0.0/8 trust\n"
		. "    - host replication all 127.0.0.0/8 trust\n");
	$set->(qr/(?<=data_dir: ).*$/m, "$dir/data");
	$set->(qr/(?<=bin_dir: ).*$/m, $self->{bindir});
	$text .= "  pgpass: $dir/pgpass\n  parameters:\n"
	  . $lines->(
		4,
		{
			unix_socket_directories => $dir,
			fsync => 'off',
			'zklock.hosts' => $change{hosts},
			%{ $change{own} // {} }
		});
	return $text;
}

sub name
{
	my ($self) = @_;

	return $self->{name};
}

sub address
{
	my ($self) = @_;

	return $self->{address};
}

sub start
{
	my ($self) = @_;

	# PostgreSQL inherits the standard input. A backend that waits for a standby when the
	# postmaster ends reads it, and ends at its end.
	$self->{patroni} = Child->start("$self->{dir}/patroni.log",
		'sh', '-c', 'exec patroni "$0" </dev/null', "$self->{dir}/patroni.yml");
	return;
}

# Sends this signal to Patroni itself.
sub signal
{
	my ($self, $signal) = @_;

	kill($signal, $self->{patroni}{pid}) if $self->{patroni}->is_running;
	return;
}

# Stops Patroni and PostgreSQL, in whatever state they are.
sub stop
{
	my ($self) = @_;

	return if !$self->{patroni};
	$self->signal('CONT');
	$self->{patroni}->stop('TERM');
	if (my $pid = $self->postmaster)
	{
		kill('QUIT', $pid);
		wait_until('the server has stopped', sub { !kill(0, $pid) });
	}
	return;
}

# The pid of the postmaster, if there is one
sub postmaster
{
	my ($self) = @_;

	open(my $fh, '<', "$self->{dir}/data/postmaster.pid") or return;
	my ($pid) = (<$fh> // '') =~ /^(\d+)$/ or return;
	return kill(0, $pid) ? $pid : undef;
}

sub connstr
{
	my ($self) = @_;

	return "host=$self->{dir} port=${\ PG_PORT} user=postgres dbname=postgres";
}

# The connection string for a client that tries these servers in order until it finds the
# primary
sub to_primary
{
	my ($class, @patronis) = @_;

	return 'host=' . join(',', map { $_->{dir} } @patronis) . " port=${\ PG_PORT}"
	  . ' user=postgres dbname=postgres target_session_attrs=read-write connect_timeout=5';
}

# Returns the result of a query; undef if the server does not answer.
sub ask
{
	my ($self, @statements) = @_;

	open(my $fh, '-|', 'sh', '-c', 'exec "$@" 2>>"$0"',
		"$self->{dir}/psql.log", "$self->{bindir}/psql", '-XqAt', '-v', 'ON_ERROR_STOP=1',
		$self->connstr, map { ('-c', $_) } @statements)
	  or die "psql: $!\n";
	my $out = do { local $/; <$fh> }
	  // '';
	close($fh) or return;
	chomp $out;
	return $out;
}

# Runs a file of SQL.
sub load
{
	my ($self, $file) = @_;

	Child->run("$self->{dir}/psql.log", $Wait::timeout, "$self->{bindir}/psql", '-Xq', '-v',
		'ON_ERROR_STOP=1', '-f', $file, $self->connstr);
	return;
}

sub is_primary
{
	my ($self) = @_;

	return ($self->ask('SELECT pg_is_in_recovery()') // '') eq 'f';
}

# Requests a switchover from Patroni, which is not always ready for it. Returns false if it
# has refused.
sub request_switch
{
	my ($self, $candidate) = @_;
	my $order = encode_json({ leader => $self->{name}, candidate => $candidate->{name} });

	my $answer =
	  HTTP::Tiny->new(timeout => 1)
	  ->post("http://$self->{address}:${\ API_PORT}/switchover", { content => $order });

	# 599: it has not answered yet.
	return $answer->{success} || $answer->{status} == 599;
}

1;
