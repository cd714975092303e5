# Seed 51
# A term is over before the delete of its node is answered.
/^is_gone(/,/^}/s/return zklock_slots_is_idle(c->claim) &&/return zklock_slots_is_idle(c->claim); return/
