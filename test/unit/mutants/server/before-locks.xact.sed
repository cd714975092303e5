# Seed 1
# Locks are given back before those of PostgreSQL.
/^release_event/,/^}/s/RESOURCE_RELEASE_AFTER_LOCKS/RESOURCE_RELEASE_BEFORE_LOCKS/
