# Seed 84
# Those of one node do not block each other.
/^is_ahead(/,/^}/ s/ || ahead->rank != p->rank//
