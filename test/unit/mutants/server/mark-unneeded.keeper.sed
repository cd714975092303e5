# Seed 4
# A node may be kept that was not created for that.
s/if (!marked || !alone ||/if (!alone ||/
