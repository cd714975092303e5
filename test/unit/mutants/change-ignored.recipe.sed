# A watch that fired for a change is used up: forget to look again.
/ev->kind == ZKLOCK_EV_CHANGED/,/^\t}/ s/r->list = ask(.*;/(void) 0;/
