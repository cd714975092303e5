# Seed 1
# Forget an unwanted node before it is deleted.
/^delete_node(/,/^}/ s/^\tsim_runner_release(&s->runner, a);$/\tif (slot->gate.wanted != 0)\n\t&/
