# Scenario lost-lease
# A commit relies on a confirmation for the whole timeout.
/^is_confirmed/,/^}/s/zklock_proof_lease(\(.*\));/(\1);/
