# Seed 15
# A lock is passed on though nothing confirms that it is still held.
/^give_up/,/^}/s/generation == generation && confirmed >= now - lease;/generation == generation \&\& confirmed <= now + lease;/
