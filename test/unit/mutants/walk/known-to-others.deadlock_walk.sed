# A walk that begins again after a change looks at the list only.
/^begin_again(/,/^}/ s/walk->all_room, 0)/walk->all_room, walk->listed)/
