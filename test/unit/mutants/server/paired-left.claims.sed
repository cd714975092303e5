# Scenario advisory-paired
# A claim that is used again counts as paired.
/^zklock_claims_enter/,/^}/s/claim->paired = false;//
