# What others have given up is not expected to make room.
/^room_for(/,/^}/ s/session->all - session->given_up/session->all/
