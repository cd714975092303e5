# Seed 10
# Who may request more is still in the queue of those who wait for that.
/^zklock_owners_permit/,/^}/s/end_wait(me);/;/
