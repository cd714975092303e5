# Seed 51
# A server campaigns in recovery.
/^go_on(/,/^}/s/!RecoveryInProgress()/true/
