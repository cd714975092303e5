# Seed 9
# An attempt that is given up is still shown.
/^abandon(/,/^}/s/^\tzklock_claims_report(.*//
