# Seed 36129
# A lock is given back before the alarm is off.
/^release_node/,/^}/{
	s/^.bool.*paused = zklock_loss_release(hold);/	bool		paused;/
	s/^		zklock_session_routine->delete_node(hold);/&\
	paused = zklock_loss_release(hold);/
}
