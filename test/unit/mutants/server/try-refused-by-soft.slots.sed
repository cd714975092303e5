# Seed 52
# Who does not want to wait is refused for a node that is only kept.
s/changed = outcome->yielding ?/changed = false ?/
