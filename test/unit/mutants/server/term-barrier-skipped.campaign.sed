# Seed 3678
# The node is given up while commits rely on its term.
/^leave_after_commits(/,/^}/s/if (!zklock_leaders_is_committing(number_of(c)))/if (true)/
