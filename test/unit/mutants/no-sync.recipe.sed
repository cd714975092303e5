# After a connection loss, list without a sync.
s/^\tr->sync = ask(.*$//
