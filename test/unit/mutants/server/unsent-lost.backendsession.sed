# Seed 51177
# An attempt that waits for room is begun in another session.
/^begin_later(/,/^}/ s/zklock_session_is_current(attempt->generation)/true/
