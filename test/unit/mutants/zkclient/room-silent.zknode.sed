# Who waits for room is not woken.
/^tell_of_room(/,/^}/ s/zklock_zkcore_notify(client);/;/
