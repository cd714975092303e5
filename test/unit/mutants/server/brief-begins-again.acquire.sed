# Scenario all-try-expired
# A try of many that was refused begins again in another session.
/^wait_for_locks/,/^}/s/^		if (brief)$/		if (brief \&\& !expired)/
