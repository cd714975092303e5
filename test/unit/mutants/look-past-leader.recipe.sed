# Seed 202
# A look at a simple lock takes the node of another session for one that is being deleted.
/^feed_look(/,/^}/ s/!is_of_others(r, ev)/true/
