# What an owner has given up itself is not expected to make room for it.
/^room_for(/,/^}/ s/mine_later = mine->all - mine->given_up;/mine_later = mine->all;/
