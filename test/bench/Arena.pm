# The common environment of the contestants: one ZooKeeper, ways to it, and the
# clients; and the figures that are measured.
#
#	my $arena = Arena->new($bindir, $tmp);
#	$arena->rounds($figure, $unit, $way, $clients, \@contestants, sub { ... });
#	$arena->median($figure, $way, $clients, $name);

package Arena;

use strict;
use warnings;

use Backends;
use Delay;
use PgServer;
use Program;
use Wait;
use ZkEnsemble;
use ZkServer;

# Ways to ZooKeeper, and the additional delay in each direction in
# microseconds: on this machine, with a round trip of 2 ms, and through a relay
# without a delay.
my %way = (loopback => undef, '2 ms' => 1000, relay => 0);

# Options: members (of ZooKeeper), rounds, seconds (of each), names (of the
# contestants, in their order) and depths (lengths of queues).
sub new
{
	my ($class, $bindir, $tmp, %opt) = @_;
	my $self = bless {
		bindir => $bindir, tmp => $tmp, %opt,
		figures => [],
		servers => {},
		delays => {},
		contestants => {},
	}, $class;
	# With ZooKeeper's own number of threads, unlike in the tests.
	my %zookeeper = (config => { maxSessionTimeout => 600_000 }, java => []);

	$self->{zk} = $opt{members} > 1 ?
	  ZkEnsemble->new(size => $opt{members}, %zookeeper) :
	  ZkServer->new(%zookeeper);
	$self->{zk}->start;
	my $maker = Program->new('raw', $tmp, $self->hosts('loopback'));
	$maker->ask('make', '/bench', 0);
	$maker->ask('make', "/bench/$_", 0) for qw(one fresh mix read four);
	$maker->ask('make', '/bench/many', 10_000);
	$maker->stop;
	return $self;
}

sub zk
{
	my ($self) = @_;

	return $self->{zk};
}

# The number of transactions that ZooKeeper has carried out, failed ones included
sub writes
{
	my ($self) = @_;
	my $server = $self->{members} > 1 ? $self->{zk}->leader : $self->{zk};

	no warnings 'portable';
	return $server->four_letter('srvr') =~ /^Zxid: 0x([0-9a-f]+)$/m ? hex($1) : 0;
}

sub ways
{
	return qw(loopback), '2 ms';
}

# The connect string of a way; with a delay, to the first member only.
sub hosts
{
	my ($self, $way) = @_;

	return $self->{zk}->hosts if !defined $way{$way};
	return $self->relay($way, $way{$way})->hosts;
}

# A relay between clients and ZooKeeper with a delay
sub relay
{
	my ($self, $name, $us) = @_;

	return $self->{delays}{$name} //=
	  Delay->new($self->{tmp}, $self->{zk}->hosts =~ /:(\d+)/, $us);
}

# A PostgreSQL server with zklock that takes a way to ZooKeeper
sub server
{
	my ($self, $way) = @_;

	return $self->{servers}{$way} //= $self->new_server($way, $self->hosts($way));
}

sub new_server
{
	my ($self, $name, $hosts, %conf) = @_;
	my $server = PgServer->with_zklock(
		$self->{bindir}, "$self->{tmp}/" . $name =~ s/ //gr, $hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '60s',
		'zklock.max_locks' => 20_000,
		max_connections => 1100,
		%conf);

	$self->{servers}{$name} = $server;
	$server->psql('-c', Backends::functions());
	return $server;
}

# Modes of sessions with ZooKeeper: one for each backend or, if the version has
# that setting, also one for all.
sub modes
{
	my ($self) = @_;
	my $there = $self->server('loopback')->psql('-c', q(
		SELECT count(*) FROM pg_settings WHERE name = 'zklock.session_mode'));

	my %wanted = map { $_ => 1 } @{ $self->{names} };

	return grep { $wanted{ $_->[0] } } [ 'zklock', {} ],
	  $there ? [ 'zklock server', { 'zklock.session_mode' => 'server' } ] : ();
}

# The same for a server that keeps locks
sub keeping_modes
{
	my ($self) = @_;
	my $name = 'zklock keep';

	return grep({ $_->[0] eq 'zklock server' } $self->modes)
	  && grep({ $_ eq $name } @{ $self->{names} }) ?
	  [ $name, { 'zklock.session_mode' => 'server' } ] : ();
}

# ... and that takes a way to ZooKeeper
sub keeping_server
{
	my ($self, $way) = @_;
	my $name = "keep $way";

	return $self->{servers}{$name} //=
	  $self->new_server($name, $self->hosts($way), 'zklock.keep_time' => '1s');
}

# Settings, such as those of a mode, for PGOPTIONS
sub options
{
	my ($settings) = @_;

	return join(' ', map { "-c $_=$settings->{$_}" } sort keys %$settings);
}

# Returns the contestants that take a way and have one of these kinds of locks,
# in order.
sub contestants
{
	my ($self, $way, @kinds) = @_;

	$self->{contestants}{$way} //= $self->invite($way);
	return grep { my $contestant = $_; grep { $contestant->knows($_) } @kinds }
	  @{ $self->{contestants}{$way} };
}

# Returns new contestants for a way.
sub invite
{
	my ($self, $way) = @_;
	my %wanted = map { $_ => 1 } @{ $self->{names} };
	my @all;

	for my $mode ($self->modes)
	{
		my ($name, $settings) = @$mode;

		push @all, Backends->new($name, $self->server($way), 'mutex', %$settings);
	}
	push @all, map { Backends->new($_->[0], $self->keeping_server($way), 'mutex', %{ $_->[1] }) }
	  $self->keeping_modes;
	push @all, Program->new($_, $self->{tmp}, $self->hosts($way))
	  for grep { $wanted{$_} } 'raw', 'raw safe', 'raw shared',
	  qw(Curator kazoo go-zookeeper);
	push @all, Backends->new('advisory', $self->server($way), 'advisory')
	  if $wanted{advisory} && $way eq 'loopback';
	return \@all;
}

# Ends all contestants, because idle clients send requests, too. They are
# started again when needed.
sub dismiss
{
	my ($self) = @_;

	$_->stop for map { @$_ } values %{ $self->{contestants} };
	$self->{contestants} = {};
	return;
}

# Lets each contestant be measured by $code, which returns a value for each of
# the figures (whose names and units alternate in @$figures), once in each
# round. Each round begins with another contestant, so that noise affects all
# alike.
sub rounds
{
	my ($self, $figures, $way, $clients, $contestants, $code) = @_;
	my @order = @$contestants;

	for my $round (1 .. $self->{rounds})
	{
		for my $contestant (@order)
		{
			my @values = $code->($contestant, $round);
			my @names = @$figures;

			while (my ($figure, $unit) = splice(@names, 0, 2))
			{
				$self->note($figure, $unit, $way, $clients, $contestant->name,
					$round, shift @values);
			}
		}
		push @order, shift @order;
	}
	$self->show($figures->[ 2 * $_ ], $way, $clients) for 0 .. $#$figures / 2;
	return;
}

sub note
{
	my ($self, $figure, $unit, $way, $clients, $name, $round, $value) = @_;

	push @{ $self->{figures} }, {
		figure => $figure, unit => $unit, way => $way, clients => $clients,
		name => $name, round => $round, value => $value,
	};
	return;
}

# The values of one figure, by round
sub values_of
{
	my ($self, $figure, $way, $clients, $name) = @_;

	return map { $_->{value} }
	  sort { $a->{round} <=> $b->{round} }
	  grep {
		$_->{figure} eq $figure && $_->{way} eq $way
		  && $_->{clients} == $clients && $_->{name} eq $name
	  } @{ $self->{figures} };
}

sub median_of
{
	my @sorted = sort { $a <=> $b } @_;

	return undef if !@sorted;
	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

sub median
{
	my ($self, @which) = @_;

	return median_of($self->values_of(@which));
}

# Returns the median of the ratios of two contestants' values in each round,
# because the load of a machine varies.
sub ratio
{
	my ($self, $figure, $way, $clients, $name, $other) = @_;
	my @a = $self->values_of($figure, $way, $clients, $name);
	my @b = $self->values_of($figure, $way, $clients, $other);

	return undef if !@a || @a != @b;
	return median_of(map { $a[$_] / $b[$_] } 0 .. $#a);
}

# The contestants of one figure, in their order
sub names_of
{
	my ($self, $figure, $way, $clients) = @_;
	my %seen;

	return grep { !$seen{$_}++ } map { $_->{name} }
	  grep {
		$_->{figure} eq $figure && $_->{way} eq $way && $_->{clients} == $clients
	  } @{ $self->{figures} };
}

# Returns its unit, if the figure exists.
sub unit
{
	my ($self, $figure, $way, $clients) = @_;

	for (@{ $self->{figures} })
	{
		return $_->{unit}
		  if $_->{figure} eq $figure && $_->{way} eq $way
		  && $_->{clients} == $clients;
	}
	return;
}

# Prints the medians of one figure, with the minimum and the maximum, and the
# ratios to Curator and to raw.
sub show
{
	my ($self, $figure, $way, $clients) = @_;
	my @names = $self->names_of($figure, $way, $clients) or return;

	printf("%s, %s, %d: %s\n",
		$figure, $way, $clients, $self->unit($figure, $way, $clients));
	for my $name (@names)
	{
		my @sorted = sort { $a <=> $b }
		  $self->values_of($figure, $way, $clients, $name);

		printf("  %-14s%12.4g  (%.4g to %.4g)",
			$name, median_of(@sorted), @sorted[ 0, -1 ]);
		for my $other ('Curator', 'raw', 'raw safe')
		{
			my $ratio = $self->ratio($figure, $way, $clients, $name, $other);

			printf('  %.2f x %s', $ratio, $other)
			  if $ratio && $name ne $other;
		}
		print "\n";
	}
	return;
}

# All figures, each value of each round
sub csv
{
	my ($self) = @_;
	my @columns = qw(figure unit way clients name round value);

	return join('', map { "$_\n" } join(',', @columns),
		map { my $row = $_; join(',', map { $row->{$_} =~ s/,//gr } @columns) }
		  @{ $self->{figures} });
}

# Returns an arena with the figures of csv(), whose names have no commas there.
sub of_csv
{
	my ($class, $csv) = @_;
	my ($columns, @rows) = map { [ split(/,/) ] } split(/\n/, $csv);
	my @figures;

	for my $row (@rows)
	{
		my %figure;

		@figure{@$columns} = @$row;
		push @figures, \%figure;
	}
	return bless { figures => \@figures }, $class;
}

sub stop
{
	my ($self) = @_;

	$_->stop for values %{ $self->{servers} };
	eval { $self->{zk}->stop };
	return;
}

1;
