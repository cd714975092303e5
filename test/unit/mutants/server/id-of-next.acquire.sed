# Seed 15807
# A lock whose session has ended is shown in the next one.
s/^\tzklock_loss_granted(hold);/&\n\thold->session_id = zklock_session_routine->status()->session_id;/
