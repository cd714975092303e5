# Seed 10
# A backend that exits leaves its claims.
/^gate_backend_cancel/,/^}/ s/return give_up(b);/return exit ? (b->flag = 0, b->state = GATE_IDLE, true) : give_up(b);/
