# Seed 7463
# A grant counts as one of the generation in which its backend wakes.
/^copy_results/,/^}/s/session_serial = state->generation/session_serial = zklock_sessionstate_generation()/
