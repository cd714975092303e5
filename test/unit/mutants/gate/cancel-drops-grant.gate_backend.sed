# Seed 440
# A cancel forgets what was granted meanwhile.
s/^\t\t\t\tsim_count(GATE_N_CANCEL_GRANTED);/\t\t\t\tb->claims[i].arrival = 0;/
