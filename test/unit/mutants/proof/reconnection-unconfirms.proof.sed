# A session that moves is not confirmed any more.
/^zklock_proof_connected/,/^}/s/if (begun != 0)/if (true)/
