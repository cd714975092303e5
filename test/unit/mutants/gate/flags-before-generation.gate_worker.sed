# Seed 82188
# Look for those who commit, let the generation go up after that, and forget what
# was confirmed last.
/^end_session/,/^}/ s/^\ts->\(generation++\|confirmed = GATE_NEVER\);$//
/^begin_session/,/^}/ s/^\tclose_session(s);$/\ts->generation++;\n&\n\ts->confirmed = GATE_NEVER;/
/^somebody_commits/,/^}/ s/flag < s->generation/flag <= s->generation/
s/zklock_gate_expired(&slot->gate, s->generation - 1,/zklock_gate_expired(\&slot->gate, s->generation,/
