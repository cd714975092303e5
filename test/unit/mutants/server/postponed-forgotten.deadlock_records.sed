# Scenario deadlock-cut
# A record that cannot be created yet is not created later.
s/any_postponed = true;/any_postponed = false;/
