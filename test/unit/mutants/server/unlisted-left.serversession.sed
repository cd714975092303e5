# Seed 8
# A lock that has found room later is still counted as one without.
/^connect_session(/,/^}/s/zklock_claims_remove_unlisted();/;/
