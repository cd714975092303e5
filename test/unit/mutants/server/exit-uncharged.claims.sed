# Seed 2
# Who exits leaves its role no charge.
/^remove_all/,/^}/s/zklock_owners_pass_to_role();//
