# Seed 5
# A process is blocked by its own positions.
/^blocks(/,/^}/ s/ahead->process == p->process/false/
