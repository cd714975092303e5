# A walk considers newer records.
/^judge_first_pass(/,/^}/ s/walk->self->czxid, ZKLOCK_WALK_HOLDS/INT64_MAX, ZKLOCK_WALK_HOLDS/
