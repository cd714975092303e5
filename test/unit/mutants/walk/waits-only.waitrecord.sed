# The name of a record tells only of the node that it waits with.
/^zklock_waitrecord_write_name(/,/^}/ s/node != NULL)/node != NULL \&\& strchr(strchr(text, '\\n') + 1, '\\n') == c)/
