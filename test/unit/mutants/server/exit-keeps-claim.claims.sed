# Seed 4
# Who exits leaves its claims.
/^remove_all/,/^}/s/while (!dlist_is_empty(&mine))/while (false)/
