# Seed 243
# The worker does not look again at an attempt whose path it must not create yet.
/^zklock_workerattempts_process_slots(/,/^}/ s/update_pace();/;/
