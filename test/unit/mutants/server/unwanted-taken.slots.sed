# Seed 4
# An attempt is taken that is not wanted any more.
/^zklock_slots_take/,/^}/s/wanted = wanted_at(slot) == serial;/wanted = true;/
