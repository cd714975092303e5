# Random SQL statements that call zklock's functions in all places that SQL has for a
# call: in select lists, beside one another and nested, LATERAL, in cursors, triggers,
# default values, DO blocks, procedures and exception handlers, while settings change.
#
#	my $statements = Statements->new($seed, $is_superuser);
#	print $statements->next, ";\n";
#
# The statements depend on nothing but the arguments. The functions and tables that they
# use are in statements.sql.

package Statements;

use strict;
use warnings;

use constant {
	DEPTH => 3,    # of calls that are nested
	MINE => "'/fuzz/'||pg_backend_pid()||'/'",    # a path for which no other client waits
};

# Values of settings. Some of the settings only a superuser can change.
my %settings = (
	'zklock.session_mode' => [qw(backend backend server)],
	'zklock.revocable' => [qw(on on off)],
	'zklock.default_scope' => [qw(session transaction)],
	'zklock.session_timeout' => [qw(10s 20s)],
	'zklock.idle_session_timeout' => [qw(0 1s)],
	'zklock.connect_timeout' => [qw(1s 10s)],
	'zklock.max_locks_per_backend' => [qw(0 3 50)],
	'zklock.confirm_commit' => [qw(off lease always)],
	'zklock.path_prefix' => [ '/fuzz', '/fuzz/a' ],
	'lock_timeout' => [qw(0 1ms 100ms)],
	'client_min_messages' => [qw(notice error)]);

# Functions without arguments
my @niladic = qw(zk_lock_release_all() zk_lock_release_all() zk_session()
  zk_server_state() zk_lock_stats_reset() with_defaults());

# Functions of a path, and their further arguments: %i is an interval, %m a
# mode, %s a scope and %n a small number.
my @of_path = (
	[ zk_lock_acquire => '%i', '%m', '%s' ],
	[ zk_lock_acquire => '%i', '%m' ],
	[ zk_lock_acquire => '%i' ],
	[ zk_lock_guard => '%i', '%m' ],
	[ zk_lock_guard => '%i' ],
	[ zk_semaphore_acquire => '%n', '%i', '%s' ],
	[ zk_shared_count_set => '%n' ],
	[ zk_fence => '%n' ],
	[ zk_fence => '%n', '%n' ],
	map({ [ $_ => '%m' ] }
		qw(zk_lock_release zk_lock_token zk_lock_grant_number zk_lock_fence)),
	map({ [$_] }
		qw(zk_lock_release zk_semaphore_release zk_lock_fence zk_shared_count_get
		  zk_lock_revoke)));

# Functions that run statements given as text, see statements.sql. Those with
# exception handlers may not run in a COMMIT, where an assertion of PostgreSQL
# itself would fail.
my @without_handler = qw(run during);
my @with_handler = qw(try dare);

sub new
{
	my ($class, $seed, $role) = @_;

	return bless {
		state => $seed * 2 + 1,
		role => $role // '',
		open => 0
	}, $class;
}

# An integer from 0 to below $n
sub random
{
	my ($self, $n) = @_;

	$self->{state} = ($self->{state} * 1103515245 + 12345) % 2**31;
	return int($self->{state} / 2**31 * $n);
}

# One of the choices
sub pick
{
	my ($self, @choices) = @_;

	return $choices[ $self->random(scalar @choices) ];
}

# Quotes a text at any depth of nesting.
sub _quote
{
	my ($self, $text) = @_;
	my $tag = 1;

	$tag++ while $text =~ /\$q$tag\$/;
	return "\$q$tag\$$text\$q$tag\$";
}

sub _path
{
	my ($self, $depth) = @_;
	my $parent = $self->{role} eq 'confined' && $self->random(5) > 0 ? '/fuzz/confined' : '/fuzz';
	my @paths = map { "'$parent/$_'" } qw(a b c d), 'a/b', "\x{e4}", 'z' x 200;

	return $self->pick(@paths) if $self->random(4) > 0;
	return MINE . '||i' if $self->{has_i};
	return "coalesce(nullif(left(${\ $self->_call($depth - 1)}::text, 0), ''), '/fuzz/a')"
	  if $depth > 0;
	return $self->pick('NULL', q('/elsewhere'), q('no path'));
}

sub _interval
{
	my ($self) = @_;

	return $self->pick(q('0'), q('0'), q('-1s'), q('1us'), q('5ms'), q('5ms'), q('50ms'),
		$self->random(4) ? q('50ms') : 'NULL');
}

sub _mode
{
	my ($self) = @_;

	return $self->pick(map { "'$_'" } qw(exclusive exclusive shared write simple));
}

sub _scope
{
	my ($self) = @_;

	return $self->pick(q('session'), q('transaction'), 'NULL');
}

# An expression of the given kind; see @of_path.
sub _argument
{
	my ($self, $kind) = @_;

	return $self->_interval if $kind eq '%i';
	return $self->_mode if $kind eq '%m';
	return $self->_scope if $kind eq '%s';
	return $self->random(4);
}

sub _setting
{
	my ($self) = @_;
	my $name = $self->pick(sort keys %settings);

	return ($name, $self->pick(@{ $settings{$name} }));
}

# A scalar expression
sub _call
{
	my ($self, $depth) = @_;
	my $kind = $self->random(20);

	return $self->pick(@niladic) if $kind < 3;
	return "zk_lock_acquire(${\ MINE}||i, '50ms')" if $kind < 5 && $self->{has_i};
	if ($kind < 10 || $depth <= 0)
	{
		my ($function, @rest) = @{ $self->pick(@of_path) };
		my $path = $self->_path($depth);

		return "$function(" . join(', ', $path, map { $self->_argument($_) } @rest) . ')';
	}
	return $self->pick(qw(definer lifted)) . '(' . $self->_path($depth) . ')'
	  if $kind < 11 && $self->{role} eq 'confined';
	if ($kind < 12)
	{
		my @paths = map { $self->_path(0) } 0 .. $self->random(4);

		return "zk_lock_acquire_all(ARRAY[" . join(', ', @paths) . "]::text[], "
		  . join(', ', $self->_interval, $self->_mode, $self->_scope) . ')';
	}
	if ($kind < 13)
	{
		return sprintf('zk_semaphore_acquire_counted(%s, %s, %s)',
			$self->_path(0), $self->_path(0), $self->_interval);
	}
	if ($kind < 15)
	{
		return sprintf(q{set_config('%s', '%s', %s)},
			$self->_setting, $self->pick(qw(false false true)));
	}
	if ($kind < 17)
	{
		return '(SELECT count(*) FROM ' . $self->_set($depth - 1) . ' x)';
	}
	return $self->pick(@without_handler, $self->{in_commit} ? () : @with_handler) . '('
	  . join(', ', map { $self->_quote($self->_nested($depth - 1)) } 1, 2) . ')';
}

# An item of FROM
sub _set
{
	my ($self, $depth) = @_;

	return $self->pick('zk_lock_status()', 'zk_lock_status()', '(TABLE zk_locks)',
		'(TABLE zk_lock_stats)', '(TABLE zk_server_status)', 'zk_lock_stat_counters()', q(zk_lock_paths('/fuzz')),
		"zk_lock_queue(${\ $self->_path(0)})",
		'generate_series(1, ' . $self->pick(1, 2, 3, 30) . ')');
}

# A function that returns rows, for a select list
sub _rows
{
	my ($self, $depth) = @_;
	my $call = $self->pick('zk_lock_status()', 'zk_lock_status()',
		"zk_lock_queue(${\ $self->_path($depth)})", q(zk_lock_paths('/fuzz')),
		'zk_lock_stat_counters()', 'generate_series(1, 3)');

	return $self->pick($call, $call, "($call).*", "($call)::text", "to_json($call)")
	  if $call =~ /^zk/;
	return $call;
}

sub _select
{
	my ($self, $depth) = @_;
	my $from = '';
	my @list;

	local $self->{has_i} = $self->random(3) == 0;
	$from = ' FROM generate_series(1, ' . $self->pick(2, 5, 40) . ') i'
	  if $self->{has_i};
	$from .= ', LATERAL ' . $self->_set($depth) . ' l'
	  if $self->{has_i} && $self->random(3) == 0;

	# Statements that are likely to fail while locks are shown
	push @list, 'zk_lock_status()' if $self->random(3) == 0;
	push @list, $self->random(2) ? $self->_rows($depth) : $self->_call($depth)
	  for 0 .. $self->random(4);
	return 'SELECT ' . join(', ', @list) . $from
	  . $self->pick('', '', '', ' LIMIT 3', ' ORDER BY 1::text');
}

# A statement that can be in a function
sub _nested
{
	my ($self, $depth) = @_;
	my $kind = $self->random(10);

	local $self->{has_i} = 0;
	return $self->_select($depth) if $kind < 8 || ($kind < 9 && $self->{in_commit});
	return "SELECT act(${\ $self->_call($depth)}::text)" if $kind < 9;
	return $self->_insert($depth);
}

sub _insert
{
	my ($self, $depth) = @_;

	return sprintf('INSERT INTO acts (at_insert, at_end, at_commit) VALUES (%s, %s, %s)',
		$self->_action($depth), $self->_action($depth),
		$self->_in_commit(sub { $self->_action($depth) }));
}

# Returns a statement for a trigger, or none.
sub _action
{
	my ($self, $depth) = @_;

	return $self->random(2) ? $self->_quote($self->_select($depth - 1)) : 'NULL';
}

# Returns statements that make a COMMIT run the statement that $code returns.
sub _in_commit
{
	my ($self, $code) = @_;

	local $self->{in_commit} = 1;
	return $code->();
}

sub _declare
{
	my ($self, $name) = @_;
	my $options = $self->pick('', 'SCROLL ') . 'CURSOR ';

	return "DECLARE $name ${options}FOR " . $self->_select(DEPTH) if $self->random(3);
	return "DECLARE $name ${options}WITH HOLD FOR "
	  . $self->_in_commit(sub { $self->_select(DEPTH) });
}

sub _block
{
	my ($self, $depth) = @_;
	my @lines =
	  map { "PERFORM * FROM (${\ $self->_select($depth - 1)}) p;" } 0 .. $self->random(3);

	push @lines, 'BEGIN ' . pop(@lines) . ' EXCEPTION WHEN '
	  . $self->pick('OTHERS', 'OTHERS', 'query_canceled') . ' THEN NULL; END;'
	  if $self->random(2);
	push @lines, $self->pick('COMMIT;', 'ROLLBACK;', 'RAISE EXCEPTION division_by_zero;')
	  if $self->random(2);
	return 'DO ' . $self->_quote('BEGIN ' . join(' ', @lines) . ' END');
}

# The next statement, without its semicolon
sub next
{
	my ($self) = @_;
	my $kind = $self->random(36);
	my $name = $self->pick(qw(one two));

	return $self->_use_objects if $self->{role} eq 'confined' && $self->random(8) == 0;

	return $self->_select(DEPTH) if $kind < 8 || $kind > 29;
	return $self->_block(DEPTH) if $kind < 11;
	return $self->_insert(DEPTH) if $kind < 12;
	return $self->pick('BEGIN', 'BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ')
	  if $kind < 14;
	return $self->pick('COMMIT', 'COMMIT', 'ROLLBACK') if $kind < 16;
	return $self->pick('SAVEPOINT s', 'SAVEPOINT s', 'ROLLBACK TO s', 'RELEASE s')
	  if $kind < 19;
	return $self->_declare($name) if $kind < 21;
	return $self->pick("FETCH 2 FROM $name", "FETCH 2 FROM $name", "FETCH ALL FROM $name",
		"FETCH BACKWARD 1 FROM $name", "CLOSE $name")
	  if $kind < 24;
	return sprintf(q(SET%s %s = '%s'), $self->pick('', '', ' LOCAL'), $self->_setting)
	  if $kind < 25;
	return $self->pick("PREPARE $name AS " . $self->_select(DEPTH),
		"EXECUTE $name", "EXECUTE $name", "DEALLOCATE $name")
	  if $kind < 27;
	return sprintf('CALL steps(%s)',
		join(', ', map { $self->_quote($self->_nested(DEPTH - 1)) } 1, 2))
	  if $kind < 28;
	return sprintf(
		$self->pick('COPY (%s) TO STDOUT', 'EXPLAIN ANALYZE %s',
			'CREATE TEMP TABLE kept AS %s'),
		$self->_select(DEPTH))
	  if $kind < 29;
	return $self->_rare;
}

# A statement that uses the objects of role confined. Those in the table are short, since
# an error undoes all that a statement has done.
sub _use_objects
{
	my ($self) = @_;
	my $table = 'confined.acts';

	return sprintf("INSERT INTO $table VALUES (%s)", $self->_quote('SELECT ' . $self->_call(0)))
	  if $self->random(2);
	return $self->pick("SELECT count(*) FROM $table", "DELETE FROM $table",
		$self->_maintenance);
}

# A command that runs code of role confined as a security-restricted operation
sub _maintenance
{
	my ($self) = @_;

	return $self->pick('ANALYZE confined.acts', 'REINDEX TABLE confined.acts',
		'REFRESH MATERIALIZED VIEW confined.shown');
}

# Returns one of the rare statements.
sub _rare
{
	my ($self) = @_;
	my @choices = ('DISCARD ALL', 'RESET ALL', 'DROP TABLE IF EXISTS kept');

	push @choices, $self->_maintenance, $self->_maintenance,
	  'ALTER SYSTEM SET zklock.handover_time = ' . $self->pick(0, 1, 100),
	  'SELECT pg_reload_conf()',
	  sprintf('SELECT set_config(%s, %s, false)',
		q('fuzz.at_fence'), $self->_quote($self->_in_commit(sub { $self->_select(1) })))
	  if $self->{role} eq 'postgres';
	return $self->pick(@choices);
}

1;
