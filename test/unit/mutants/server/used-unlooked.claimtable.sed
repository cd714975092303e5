# Seed 1
# A loop over the claims does not find those in use.
/^take_free/,/^}/s/set_used(claim, true);/;/
