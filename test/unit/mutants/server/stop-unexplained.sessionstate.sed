# Seed 2869
# When the worker continues, it is forgotten that a stop was signalled.
/^watch_worker/,/^}/s/told_gone = true;/told_gone = false;/
