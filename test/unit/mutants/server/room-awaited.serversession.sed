# Seed 298
# Who does not wait for room any more still counts as waiting.
/^await_finish/,/^}/s/zklock_owners_end_wait();/;/
