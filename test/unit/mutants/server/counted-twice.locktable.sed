# Seed 3
# When a subtransaction's holds become its parent's, the sum has them twice.
/^zklock_locktable_commit_sub/,/^}/s/child->count = 0;/child->count = -child->count;/
