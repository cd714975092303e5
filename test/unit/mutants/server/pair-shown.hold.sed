# Scenario advisory-paired
# A lock of which PostgreSQL shows its own half has a row of ours, too.
/^show(/,/^}/s/hidden ? NULL : &/\&/
