# Those ahead of a node that has gone count as ahead of the next one.
/^gate_changed/,/^}/s/entry->slot.ahead = 0;/(void) 0;/
