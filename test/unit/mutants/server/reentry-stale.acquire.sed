# Seed 18
# Who has a lock already need not catch up, although it has not when it got it.
/^has_caught_up(/,/^}/s/if (!a->reentered\[i\]->caught_up)/if (false)/
