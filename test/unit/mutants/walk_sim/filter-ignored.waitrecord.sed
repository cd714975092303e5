# Seed 3
# All records are read.
/^zklock_waitrecord_has_bit(/,/^}/ s/return .*/return digit != 0;/
