# Seed 2131
# Trust the list after a lost sync.
s/^\telse if (ev->request == r->sync)/\telse if (false)/
