# What a recording depends on: the commit, the machine, the versions and the options.

package Machine;

use strict;
use warnings;

use Program;

# Patterns: some names have a version that depends on the release.
my @packages = qw(libzookeeper-java libzookeeper-mt2* libcurator-recipes-java python3-kazoo
  golang-github-*-go-zookeeper-dev golang-go openjdk-*-jre-headless);

# $top is the checkout.
sub text
{
	my ($top, %opt) = @_;
	my ($model) = Program::slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)/m;
	my ($memory) = Program::slurp('/proc/meminfo') =~ /^MemTotal:\s*(\d+)/m;
	my ($os) = Program::slurp('/etc/os-release') =~ /^PRETTY_NAME="(.*)"/m;
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	my ($processors) = _output('nproc');

	return join('', map { "$_\n" }
		  "commit: " . ((_output("git -C '$top' describe --always --dirty"))[0] // 'unknown'),
		"machine: $processors x " . ($model // 'unknown') . sprintf(', %.0f GB', $memory / 2**20),
		"system: $os",
		'versions: ' . join(', ', _output("$pg_config --version"),
			grep { / \S/ } _output("dpkg-query --show --showformat '\${Package} \${Version}\\n' "
				  . join(' ', map { "'$_'" } @packages))),
		"options: " . join(', ', map { ref($opt{$_}) ? "$_ @{ $opt{$_} }" : "$_ $opt{$_}" }
			  grep { $_ ne 'names' } sort keys %opt))
	  . "\n";
}

# The lines that a command prints; none if it fails
sub _output
{
	my ($command) = @_;
	my @lines = split(/\n/, `$command 2>/dev/null`);

	return @lines;
}

1;
