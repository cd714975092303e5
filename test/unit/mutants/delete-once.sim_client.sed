# Leave: a delete that was lost is not tried again.
/sim_count(SIM_N_LEAVE_RETRIES);/ s/$/ own->used = false;/
