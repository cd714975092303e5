# Seed 86
# A loss while no loss was signalled is not looked for.
/^zklock_loss_resume/,/^}/s/\&\& !was_on ? find_lost_hold()/\&\& false ? find_lost_hold()/
