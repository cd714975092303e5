# Seed 3
# Only the queue of the process itself is read.
/^go_on(/,/^}/{/case LIST_QUEUES/,/break/ s/!need_more(walk)/true/}
