# Seed 3244
# A lock whose session has ended is shown in the next one.
s/hold->session_id = .*/hold->session_id = zklock_session_routine->status()->session_id;/
