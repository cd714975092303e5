# Seed 8
# Who waits for room is not woken when there is some.
/^await_claim/,/^}/s/zklock_owners_wait_for_room();/;/
