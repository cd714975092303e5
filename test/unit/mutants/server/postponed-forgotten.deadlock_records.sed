# Seed 4279
# A record that cannot be created yet is not created later.
s/any_postponed = true;/any_postponed = false;/
