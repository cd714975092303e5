# Seed 139
# A writer that looks does not see readers.
/^find_ahead/,/^}/ s/!zklock_contender_conflict(kind, mine) ||/& (r->params.only_looks \&\& kind->reader) ||/
