# A session that was used a beat ago does not count as used.
/^next_beat/,/^}/s/ & 3/ \& 1/
