# Seed 308
# An attempt that is abandoned does not show that its granted node was deleted.
/^zklock_loss_abandon/,/^}/s/zklock_sessionroutine_is_deleted(attempt->node)/false/
