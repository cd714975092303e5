# Seed 10355
# A look trusts a list whose sync was lost.
/^feed_look(/,/^}/ s/if (r->stalled)/if (false)/
