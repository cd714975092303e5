# Scenario gate-unwatched
# A refused watch is left there, although another attempt has left its own to this one.
/^feed(/,/^}/s/^\tunwatch_former(.*/\tif (event->reply != ZKLOCK_NOT_WATCHED)\n\t\tunwatch_former(driver, former);/
