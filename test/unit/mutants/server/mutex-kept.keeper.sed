# Seed 347
# The mutex of a semaphore may be kept.
s/ \&\& !is_mutex(path)/ \&\& (!is_mutex(path) || true)/
