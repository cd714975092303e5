# Seed 1208
# The node is given up while commits rely on its term.
/^step(/,/^}/s/if (!zklock_leaders_is_committing(number_of(c)))/if (true)/
