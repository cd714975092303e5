# Seed 294
# Trust the list behind a sync that was lost.
s/^\telse if (ev->request == r->sync)/\telse if (false)/
