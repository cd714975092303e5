# Seed 4
# A wait goes on with an answer whose record has been removed.
/too_late |=/d
