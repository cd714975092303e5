# Seed 654
# A node that is gone is confirmed.
s/rc == ZKLOCK_RC_NO_NODE ? ZKLOCK_ANSWER_GONE/rc == ZKLOCK_RC_NO_NODE ? ZKLOCK_ANSWER_HELD/
