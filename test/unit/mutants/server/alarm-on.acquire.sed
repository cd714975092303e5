# Seed 11563
# A lock is given back before the alarm is off.
/^release_node/,/^}/{
	/^	paused = zklock_loss_release(hold);/d
	s/^		zklock_session_routine->delete_node(hold);/&\
	paused = zklock_loss_release(hold);/
}
