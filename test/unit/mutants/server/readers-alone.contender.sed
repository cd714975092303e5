# Scenario keep-reader
# Readers are no contenders of a node that is kept.
/^zklock_contender_in_list/,/^}/s/zklock_contender_conflict(other, kind)/zklock_contender_conflict(other, kind) \&\& !other->reader/
