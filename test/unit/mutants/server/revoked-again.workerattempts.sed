# Scenario revoke-both
# A revocation of one lock revokes those again that were revoked before.
/^zklock_workerattempts_pass_on_revocations(/,/^}/s/attempt->revocations = revocations;/;/
