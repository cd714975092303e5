# Seed 3
# Pass a lock on although a reader's node was made under it.
s/fit && !gate->handover_forbidden &&/fit \&\&/
