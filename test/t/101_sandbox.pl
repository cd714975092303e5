# make sandbox, with the installed extension
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Child;
use File::Temp;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;

# An interrupt is sent during the session, as by ^C at a terminal.
my $dir = File::Temp->newdir('sandbox-XXXXXX', TMPDIR => 1);
$ENV{ZKLOCK_INSTALLED} = 1;
$Child::detached = 1;

my $sandbox =
  Child->start("$dir/log", "$FindBin::RealBin/../sandbox/run");
$sandbox->say($_)
  for q(\pset),
  q(\pset format unaligned),
  q(SELECT current_setting('cluster_name') AS name,
	zk_lock_acquire('/shop/a') AS lock;),
  q(\! kill -INT 0),
  q(SELECT node <> '' AS kept FROM zk_locks;),
  q(\c - - :HOST/../B),
  q(SELECT current_setting('cluster_name') AS name,
	zk_lock_acquire('/shop/a', '1 min') AS lock;),
  q(\echo directory :HOST);
$sandbox->finish($Wait::timeout);

my $log = $sandbox->output;
like($log, qr/^expanded +auto\n(?:.*\n)*pager +0\n/m,
	'rows that are wider than the terminal are shown as columns, without a pager');
like($log, qr/^name\|lock\nA\|t\n/m, 'lock is acquired on A');
like($log, qr/^kept\nt\n/m, '... and is held after an interrupt');
like($log, qr/^name\|lock\nB\|t\n/m, 'lock is acquired on B');
my ($servers) = $log =~ m{^directory (/tmp/\S+)/A/\.\./B$}m or diag($log);
ok(defined $servers && !-e $servers, 'sandbox leaves no files');

# One session for each server
$ENV{SESSION} = 'server';
$sandbox = Child->start("$dir/server", "$FindBin::RealBin/../sandbox/run");
delete $ENV{SESSION};
$sandbox->say($_)
  for q(\pset format unaligned),
  q(SELECT zk_lock_acquire('/shop/a');),
  q(\c - - :HOST/../B),
  q(SELECT zk_lock_acquire('/shop/a', '1 min') AS lock;),
  q(SELECT count(*) AS workers FROM pg_stat_activity WHERE backend_type = 'zklock worker';);
$sandbox->finish($Wait::timeout);
like($sandbox->output, qr/^lock\nt\n(?:.*\n)?workers\n1$/m,
	'with SESSION=server, the servers have one session each');

# The exit status of psql is that of the sandbox.
$sandbox = Child->start("$dir/failed", "$FindBin::RealBin/../sandbox/run");
$sandbox->say('\set ON_ERROR_STOP 1');
$sandbox->say('SELECT no_such_column;');
ok(!eval { $sandbox->finish($Wait::timeout); 1 }, 'sandbox fails if psql fails');
like($@, qr/status 768\n/, '... with the status of psql');

done_testing();
