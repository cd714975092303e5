# Seed 82188
# Wait for commits before the generation is incremented and the last confirmation
# is reset, not after.
/^end_session/,/^}/ s/^\ts->\(generation++\|confirmed = GATE_NEVER\);$//
/^begin_session/,/^}/ s/^\tclose_session(s);$/\ts->generation++;\n&\n\ts->confirmed = GATE_NEVER;/
/^is_committing/,/^}/ s/flag < s->generation/flag <= s->generation/
s/zklock_gate_expired(&slot->gate, s->generation - 1,/zklock_gate_expired(\&slot->gate, s->generation,/
