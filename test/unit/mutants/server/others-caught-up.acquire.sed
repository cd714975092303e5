# Seed 18
# A new lock counts as caught up with if those that it is taken with are.
/^has_caught_up(/,/^}/s/if (request->from == NULL ||/if (request->from != NULL \&\&/
