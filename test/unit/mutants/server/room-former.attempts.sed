# Seed 1
# A node that was handed over counts for the role that requested it.
/^update_owners(/,/^}/ s/role != InvalidOid ? role : attempt->driver.owner/attempt->driver.owner/
/^update_owners(/,/^}/ s/if (role != InvalidOid)/if (false)/
