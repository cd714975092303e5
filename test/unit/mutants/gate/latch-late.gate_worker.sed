# Seed 373
# A new worker looks at what is wanted, and can be poked after that.
s/^\t\t\ts->latch_known = true;$//
/^go_through_slots/,/^}/ s/^\treturn false;$/\ts->latch_known = true;\n&/
