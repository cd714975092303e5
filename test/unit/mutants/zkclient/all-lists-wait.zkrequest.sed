# While a long list is under way, each other list has to wait.
/^zklock_zkclient_may_list(/,/^}/ s/nlong_lists == 0 ||/nlong_lists == 0;/
/^zklock_zkclient_may_list(/,/^}/ { /!zklock_longlist_is_noted/d }
