# Scenario disconnect-deleted
# A node that is deleted by others disconnects nobody.
/^zklock_sessionstate_lose(/,/^}/s/send_request(.*//
