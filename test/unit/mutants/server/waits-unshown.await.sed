# Seed 66
# Waits are not shown.
/^show_wait/,/^}/s/!granted && !queued_is_enough/queued_is_enough/
