# Scenario keep-full
# A node is kept in the room that somebody waits for, and the worker is not told.
/^zklock_claimtable_free(/,/^}/s/tell_of_room();/;/
