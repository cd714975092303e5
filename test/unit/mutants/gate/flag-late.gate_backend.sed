# Seed 7815
# A commit sets its flag after it has made its checks.
s/b->flag = b->generation;/(void) 0;/
/^decide/,/^}/ s/^\t\tgate_check_commit(b);$/&\n\t\tb->flag = b->generation;/
