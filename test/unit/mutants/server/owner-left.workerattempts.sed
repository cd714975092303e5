# Scenario room-roles
# A gate's node counts for the role that has requested it.
/^update_owners(/,/^}/s/role != InvalidOid ? role : attempt->driver.owner,/attempt->driver.owner,/
