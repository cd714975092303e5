# Seed 14
# A node stays of a lock that was forgotten while the session was gone, and is back.
/^zklock_lease_forget/,/^}/s/zklock_session_routine->delete_node(lost);//
