# Seed 86
# With 'auto', a lock of transaction scope is enough to disconnect the client.
/^update_relied_on/,/^}/s/hold->session_count > 0 && //
/^zklock_locktable_set_advisory/,/^}/s/if (scope == ZKLOCK_SESSION)/if (scope >= 0)/
