# What the scripts of zklock_advisory make, in full: an extension that was updated is compared
# with a new one.

package Catalog;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename qw(dirname);

our @EXPORT = qw(advisory_catalog);

my $file = dirname(__FILE__) . '/../sql/catalog.sql';

# Read before a program steps down to a user who may not be able to
open(my $fh, '<', $file) or die "$file: $!\n";
my $catalog = do { local $/; <$fh> };

# Returns queries that print it. $create are statements that create the extension, if it is not
# there.
sub advisory_catalog
{
	my ($create) = @_;

	return $catalog =~ s/^CREATE EXTENSION zklock_advisory;/$create/mr =~ s/^DROP EXTENSION .*//mrs
	  . <<'EOSQL';
SELECT objid::regclass, pg_get_viewdef(objid), relowner::regrole, relacl
FROM members JOIN pg_class ON oid = objid WHERE relkind = 'v' ORDER BY objid::regclass::text;
SELECT objid::regprocedure, prosrc, proowner::regrole, proacl
FROM members JOIN pg_proc ON oid = objid WHERE classid = 'pg_proc'::regclass ORDER BY objid::regprocedure::text;
SELECT pg_identify_object(p.classoid, p.objoid, p.objsubid)::text, initprivs, privtype
FROM members m JOIN pg_init_privs p ON p.classoid = m.classid AND p.objoid = m.objid ORDER BY 1;
SELECT pg_identify_object(m.classid, m.objid, 0)::text, pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid)::text, d.deptype
FROM members m JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid ORDER BY 1, 2, 3;
SELECT extversion, extconfig FROM pg_extension WHERE extname = 'zklock_advisory';
EOSQL
}

1;
