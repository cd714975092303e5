# Seed 7
# Feed an attempt what was meant for the one before.
s/^\t\t\tr->attempts\[i\]\.id == message->tag\.attempt)/\t\t\tmessage->tag.attempt > 0)/
