# Seed 9
# Messages reach the first receiver only.
/^zklock_session_deliver/,/^}/s/receiver->process(receiver, message);/{ receiver->process(receiver, message); break; }/
