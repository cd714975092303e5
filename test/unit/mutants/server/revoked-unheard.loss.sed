# Scenario revoke-release
# Cancel on loss stays on while a revocable lock is released, if others are held.
/^zklock_loss_release/,/^}/s/!hold->revocable/hold->revocable/
