# Seed 3244
# A lock whose session has ended is shown in the next one.
/is_current(attempt->session_serial)/s/if (.*/if (true)/
