# Put each backend at the end, whatever its ticket.
s/while (before != NULL && before->ticket > turn->ticket)/while (false)/
