# Seed 148
# Only the first of the readers of a node is cancelled when it is deleted.
/^tell_deleted_at_gate(/,/^}/ s/if (turn->lost)/if (turn->lost \&\& !turn->joined)/
