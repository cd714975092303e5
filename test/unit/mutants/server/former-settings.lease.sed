# Seed 18
# A session goes on with settings that are not in force any more.
s/zklock_session_is_outdated() || //
