# Seed 8
# A walk considers newer records.
/^judge(/,/^}/ s/walk->self->czxid, ZKLOCK_WALK_HOLDS/INT64_MAX, ZKLOCK_WALK_HOLDS/
