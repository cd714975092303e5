# Seed 373
# A new worker reads the requests before it can be woken.
s/^\t\t\ts->latch_known = true;$//
/^go_through_slots/,/^}/ s/^\treturn false;$/\ts->latch_known = true;\n&/
