# Seed 1
# A loop over the claims also looks at those that were in use.
/^give_free/,/^}/s/set_used(claim, false);/;/
