# Scenario advisory-paired
# A lock of which PostgreSQL shows its own half has a row of ours, too.
/^change_pairs/,/^}/s/was_paired ? &hold->advisory.key : NULL/\&hold->advisory.key/
