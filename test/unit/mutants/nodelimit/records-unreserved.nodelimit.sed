# Locks use the part for records of waits.
/^zklock_nodelimit_room(/,/^}/ s/limit -= RECORDS(limit);/;/
