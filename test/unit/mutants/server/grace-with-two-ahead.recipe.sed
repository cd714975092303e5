# Seed 329
# Who does not want to wait is not refused though several are ahead.
s/verdict == ZKLOCK_PENDING && is_yielding(&ahead);/verdict == ZKLOCK_PENDING \&\& ahead.n > 0 \&\&\n\t\tzklock_contender_is_marked(ahead.nearest);/
