# Seed 1
# A backend that has locks takes the next one in another session.
/^zklock_sessionchoice_choose/,/^}/{
	/if (zklock_locktable_size() > 0)/{
		N
		d
	}
}
