# Seed 2017
# A grant counts as one of the generation in which its backend wakes.
/^copy_results/,/^}/s/generation = state->generation/generation = zklock_sessionstate_generation()/
