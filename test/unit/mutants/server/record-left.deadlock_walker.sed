# Seed 19
# The record of a wait is not deleted.
/^zklock_deadlock_walker_end/,/^}/s/^		zklock_zkclient_delete(walker->node);/		(void) 0;/
