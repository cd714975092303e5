# Seed 18
# A server catches up before it has the lock, and not with it.
/^acquire(/,/^}/{
s/zklock_catchup_before_lock(scope, rest(begun, ns));/zklock_catchup_before_lock(scope, rest(begun, ns));\
		(void) zklock_catchup_with_lock(rest(begun, ns));/
s/caught_up = zklock_catchup_with_lock(rest(begun, ns));/caught_up = true;/
}
