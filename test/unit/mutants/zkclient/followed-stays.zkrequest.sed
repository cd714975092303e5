# The answer to a create wakes nobody, although no list follows.
/^zklock_zkclient_list(/,/^}/ s/set_followed(request, false);/;/
