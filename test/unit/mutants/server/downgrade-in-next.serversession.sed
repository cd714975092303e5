# Seed 10436
# A downgrade of a lock of a former session is requested in the next one.
/^forbid_handover/,/^}/s/session = held->generation;/session = zklock_sessionstate_generation();/
