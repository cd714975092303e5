# Seed 3
# Hand a lock over although a reader's node was created under it.
s/fit && !gate->handover_forbidden &&/fit \&\&/
