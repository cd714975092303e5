# Scenario guard-resign
# A term is known by its generation only.
/^is_current(/,/^}/s/leader->row.term.[st][a-z]* == term->[st][a-z]* &&//
