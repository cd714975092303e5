# Seed 80
# However the worker ends, its session ends with it.
s/^.zklock_session_keep_at_exit();//
