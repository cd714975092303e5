# Scenario lost-lease
# A commit relies on a confirmation for the whole timeout.
/^zklock_lease_is_confirmed/,/^}/s/zklock_proof_lease(\(.*\));/(\1);/
