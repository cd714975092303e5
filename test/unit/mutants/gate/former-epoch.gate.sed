# A kept node is granted though an event may have been lost.
/^zklock_gate_regrant/,/^}/s/node->kept_epoch != terms->epoch || //
