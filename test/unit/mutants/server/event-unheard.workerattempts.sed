# Seed 52
# The event of the watch beside a kept node is not processed.
s/^.*zklock_keeper_process_event(message->text);//
