# After the end of a session, a waiter begins at the end of the queue.
/^fail_turn(/,/^}/ s/if (verdict != ZKLOCK_EXPIRED)/if (verdict != ZKLOCK_PENDING)/
