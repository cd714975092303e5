# Scenario lost-commit
# A commit raises its flag after its check.
/^zklock_lease_confirm_commit/,/^}/{
	/routine->commit(true);/d
	s/^	confirm_granted(.*/&\
	zklock_session_routine->commit(true);/
}
