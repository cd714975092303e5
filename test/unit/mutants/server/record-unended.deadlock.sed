# Seed 27
# The record of a wait is not given up.
/^zklock_deadlock_record_end/,/^}/s/zklock_session_routine->unpublish();/(void) 0;/
