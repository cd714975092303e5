# Seed 27
# Leave: a delete that was lost is not tried again.
/sim_count(SIM_N_DELETE_RETRIES);/ s/$/ own->used = false;/
