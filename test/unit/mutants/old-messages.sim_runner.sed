# Seed 7
# Pass messages of the previous attempt to an attempt.
s/^\t\t\tr->attempts\[i\]\.id == message->tag\.attempt)/\t\t\tmessage->tag.attempt > 0)/
