# Scenario guard-resign
# The flag of a guarded commit is raised after its check.
/^zklock_leaderguard_confirm_commit(/,/^}/s/server->commit(true);/;/
/^zklock_leaderguard_confirm_commit(/,/^}/s/return confirm(zklock_lease_asks_for_nodes());/{ bool waited = confirm(zklock_lease_asks_for_nodes()); server->commit(true); return waited; }/
