# Scenario deadlock-servers
# A verdict does not wake the backend that waits for it.
/^zklock_deadlock_slots_report(/,/^}/s/zklock_sessionstate_set_latch(slot);/;/
