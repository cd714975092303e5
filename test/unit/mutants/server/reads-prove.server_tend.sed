# Seed 1
# A read that is answered is a mark.
/^answered/,/^}/s/what != SERVER_WRITE/what == SERVER_PING/
