# Scenario commit-waits
# A confirmation that arrives before a commit listens is not seen.
/^await_change(/,/^}/s/if (state.client.state == before.state.*/if (true)/
