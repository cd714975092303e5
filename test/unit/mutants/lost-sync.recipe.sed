# Seed 2131
# Trust the list after a lost sync.
s/^\t\t&r->sync,/\t\t\&r->parents,/
