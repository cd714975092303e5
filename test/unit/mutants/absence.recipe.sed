# Seed 146
# Ignore that our own node is not in the list.
s/else if (!ahead.self)/else if (!ahead.self \&\& false)/
