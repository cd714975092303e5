# Seed 7815
# A commit raises its flag once it has looked at everything.
s/b->flag = b->generation;/(void) 0;/
/^decide/,/^}/ s/^\t\tgate_check_commit(b);$/&\n\t\tb->flag = b->generation;/
