# Forget a node that nobody wants any more before it is deleted.
/^leave(/,/^}/ s/^\tsim_runner_leave(&s->runner, a);$/\tif (place->gate.wanted != 0)\n\t&/
