# What others have given up is not expected to make room.
/^zklock_nodelimit_room(/,/^}/ s/session->all - session->given_up/session->all/
