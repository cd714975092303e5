# Seed 3
# All records are read.
/^may_have(/,/^}/ s/return false/continue/
