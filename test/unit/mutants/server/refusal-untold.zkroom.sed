# Scenario own-undeleted
# Who waits for a node is not told that it stays.
/^zklock_zkroom_give_up(/,/^}/ s/return end_wait(accounts);/return accounts->awaited = false;/
