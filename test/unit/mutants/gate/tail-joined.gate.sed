# Seed 1
# Whoever joins stands last, whatever his ticket.
s/while (before != NULL && before->ticket > turn->ticket)/while (false)/
