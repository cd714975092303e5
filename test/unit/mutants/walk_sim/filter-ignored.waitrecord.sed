# Seed 3
# All records are read.
/^zklock_waitrecord_may_have(/,/^}/ s/return false/continue/
