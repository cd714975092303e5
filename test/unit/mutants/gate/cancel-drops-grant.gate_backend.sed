# Seed 440
# A cancellation forgets a lock that was granted meanwhile.
s/^\t\t\t\tsim_count(GATE_N_CANCEL_GRANTED);/\t\t\t\tb->claims[i].arrival = 0;/
