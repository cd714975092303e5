# A node of a use that is not known is taken for one that is held.
/^parse_line(/,/^}/ s/if (!find_use(line, &node->use))/if (!find_use(line, \&node->use) \&\& (node->use = ZKLOCK_WALK_HOLDS, false))/
