# Scenario readers-always
# A question that was asked before the answer to another one is left.
/^zklock_slots_answer(/,/^}/{
/slot->asked != question/,+1d
}
