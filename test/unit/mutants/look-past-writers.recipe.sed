# Seed 25
# Who looks does not see writers of another mode, which may be nodes of its own session.
/^find_ahead/,/^}/ s/!zklock_contender_conflict(kind, mine) ||/& (r->params.only_looks \&\& kind != mine \&\& !kind->reader) ||/
