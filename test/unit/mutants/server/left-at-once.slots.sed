# Scenario room-roles
# A role is refused before the owners of gates' nodes were updated.
/^zklock_slots_was_left/,/^}/s/bool\t\twas_left = false;/bool\t\twas_left = true;/
