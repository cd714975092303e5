# A walk ends if a member has changed.
/^go_on(/,/^}/ s/begin_again(walk);/{ begin_again(walk); end_walk(walk, ZKLOCK_WALK_NO_DEADLOCK); }/
