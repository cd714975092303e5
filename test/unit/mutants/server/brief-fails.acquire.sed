# Scenario all-try-hidden
# A try of many that was refused fails with what ends the moment for which it waits.
/^wait_for_locks/,/^}/s/^		if (brief)$/		if (brief \&\& expired)/
