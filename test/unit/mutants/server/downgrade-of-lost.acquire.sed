# Scenario all-downgrade
# A reader begins under a lock whose node was deleted during the wait for another lock.
/^begin(/,/^}/s/if (attempt->request.from != NULL)/if (false)/
