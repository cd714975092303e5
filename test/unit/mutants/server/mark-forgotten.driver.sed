# Seed 28
# The name of a node that may be kept does not show that.
s/marked ? 0x80 : 0x40/marked ? 0x40 : 0x40/
