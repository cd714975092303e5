# A session that was used a beat ago does not count as used.
s/used || proof->was_used/used/
