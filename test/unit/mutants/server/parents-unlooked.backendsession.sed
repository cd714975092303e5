# Seed 78
# Who has a session of its own does not wake up to create the path of its lock.
/^wait_for_attempts(/,/^}/ s/ && zklock_driver_wants_parents(.*/ \&\& false)/
