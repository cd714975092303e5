# PostgreSQL's functions for advisory locks with zklock.advisory_locks = 'cluster', and with
# 'both', beside its own locks. The contestants are the sessions that hold them in ZooKeeper.

package Advisory;

use strict;
use warnings;

use constant CLIENTS => 8;

sub measure
{
	my ($arena) = @_;
	my ($own) = grep { $_->name eq 'advisory' } $arena->contestants('loopback', 'mutex');
	my @modes = (
		map({ [ @$_, $arena->server('loopback') ] } $arena->modes),
		map({ [ @$_, $arena->keeping_server('loopback') ] } $arena->keeping_modes));

	# Once on each server
	$_->psql('-c', 'CREATE EXTENSION zklock_advisory')
	  for values %{ { map { ($_->[2] => $_->[2]) } @modes } };
	for my $setting (qw(cluster both))
	{
		my @all = map {
			my ($name, $settings, $server) = @$_;

			Backends->new($name, $server, 'advisory', %$settings,
				'zklock.advisory_locks' => $setting);
		} @modes;
		my @with_own = (@all, $own // ());

		$arena->rounds(
			[ "$setting: acquire, release", 'us' ],
			'loopback',
			1,
			\@with_own,
			sub { 1e6 / ($_[0]->run('mutex', 1, $arena->{seconds}, $_[0]->name, 1))[0] });
		$arena->rounds(
			[ "$setting: one lock", 'locks a second' ],
			'loopback',
			CLIENTS,
			\@with_own,
			sub { ($_[0]->run('mutex', CLIENTS, $arena->{seconds}, $_[0]->name, 1))[0] });
		$_->stop for @all;
	}
	return;
}

1;
