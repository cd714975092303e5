# Scenario deadlock-parent-lost
# A record is given up if its parent is missing again after the connection was lost.
/^begin_walk(/,/^}/s/walker->made_parent = false;//
