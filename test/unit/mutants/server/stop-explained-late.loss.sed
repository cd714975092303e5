# Seed 868
# A stop that was signalled is not noted when the statement gives something up.
/^pause_cancel_on_loss/,/^}/s/hold != NULL/hold != NULL \&\& hold->node == NULL/
