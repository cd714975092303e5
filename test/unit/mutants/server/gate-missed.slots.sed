# Scenario lost-room
# A gate that the end of a session has missed keeps the serial of an attempt that is no more.
/^post_if_unserved/,/^}/s/ || is_former(slot) ||/ ||/
