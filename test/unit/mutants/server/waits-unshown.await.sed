# Seed 350
# Waits are not shown.
/^show_wait/,/^}/s/!granted && !queued_is_enough/queued_is_enough/
