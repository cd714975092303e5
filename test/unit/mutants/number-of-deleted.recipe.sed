# Seed 357009
# Compare the number of our node with those of others though it was deleted.
s/return ahead->self ? verdict : /return verdict; return /
