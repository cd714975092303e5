# Seed 2529
# A stop that was known when the statement began cancels it.
/^watch_worker/,/^}/s/tells && stopped_at != turned/tells/
