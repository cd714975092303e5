# Seed 3604
# The flag is cleared before the end of the transaction.
/^decide/,/^}/ s/^\t\tgate_check_commit(b);$/&\n\t\tb->flag = 0;/
