# Seed 3604
# The flag falls before the end of the transaction.
/^decide/,/^}/ s/^\t\tgate_check_commit(b);$/&\n\t\tb->flag = 0;/
