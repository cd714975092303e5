# Seed 4920
# A process does not make sure that those behind it still wait.
/^are_behind(/,/^}/ s/return false/return true/
