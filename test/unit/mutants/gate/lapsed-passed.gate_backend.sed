# Pass a lock on although the lease has lapsed.
/^leave(/,/^}/ s/ && gate_is_fresh(s);/;/
