# Seed 8
# Who does not want to wait is not refused though several are ahead.
s/verdict == ZKLOCK_PENDING && ahead.n == 1 &&/verdict == ZKLOCK_PENDING \&\& ahead.n > 0 \&\&/
