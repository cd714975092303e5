# Scenario room-roles
# A gate's node counts for the role that has requested it.
/^set_owner(/,/^}/s/attempt->driver.owner = role;/(void) role;/
