# A node of a use that is not known is taken for one that is held.
/^parse_line(/,/^}/ s/if (!find_use(line, &use))/if (!find_use(line, \&use) \&\& (use = ZKLOCK_WALK_HOLDS, false))/
