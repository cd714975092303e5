# Seed 27
# Leave: a lost delete is not repeated.
/sim_count(SIM_N_DELETE_RETRIES);/ s/$/ own->used = false;/
