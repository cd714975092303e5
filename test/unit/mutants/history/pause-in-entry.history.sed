# A pause ends with the next node.
/^zklock_history_granted/,/^}/s/history->number = number;/&\
	history->pause_until = 0;/
