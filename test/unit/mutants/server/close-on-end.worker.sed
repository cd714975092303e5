# Seed 4
# However the worker ends, its session ends with it.
s/^.zklock_session_stay_at_exit();//
