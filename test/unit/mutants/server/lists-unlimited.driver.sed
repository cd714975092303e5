# Seed 2
# Long lists begin one beside the other.
/^zklock_driver_may_begin(/,/^}/s/return zklock_zkclient_may_list(.*);/return true;/
