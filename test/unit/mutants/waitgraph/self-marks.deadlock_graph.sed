# Seed 226
# The process that looks marks what it has passed.
/^pass_queue(/,/^}/ s/p->process == graph->self/false/
