# Seed 10
# A lock is passed on though nothing confirms that it is still held.
/^terms_of/,/^}/s/confirmed >= now - lease,/confirmed <= now + lease,/
