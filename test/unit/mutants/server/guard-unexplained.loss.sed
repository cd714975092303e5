# Scenario guard-waits
# Who gives up a wait because a term most probably is over forgets that.
/^zklock_loss_abandon(/,/^}/s/(void) note_guard_loss();/;/
