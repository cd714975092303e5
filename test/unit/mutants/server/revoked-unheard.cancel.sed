# Seed 584
# Cancel on loss stays on while a lock is released, if others are held.
/^zklock_cancel_release/,/^}/s/(!is_last && !hold->revocable)/!is_last/
