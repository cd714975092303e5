# The second pass does not compare nodes.
/^process_nodes/,/^}/ s/if (again \&\& !listed)/if (false)/
