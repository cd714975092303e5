# Seed 2
# A record that has ended gets the replies to its requests.
/^zklock_deadlock_walker_end/,/^}/s/zklock_session_unregister(&walker->replies);/;/
