# Scenario keep-long
# A keeper's long list does not wait for another one.
/^zklock_keeper_look(/,/^}/s/if (!zklock_zkclient_may_list(.*))/if (false)/
