# Scenario all-try-expired
# A try of many that was refused begins again in another session.
s/outcome.verdict == ZKLOCK_EXPIRED && !shortly/outcome.verdict == ZKLOCK_EXPIRED/
