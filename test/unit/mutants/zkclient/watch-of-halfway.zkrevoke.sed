# A request that ran out of memory halfway counts as sent.
/^read_and_watch(/,/^}/ s/^\t\tif (rc == ZOK)$/\t\tif (rc == ZOK || rc == ZMARSHALLINGERROR)/
