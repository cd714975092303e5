# Seed 16
# Keep an unwanted node, because a backend may want it soon.
s/^\tif (slot->had != 0)$/\tif (slot->had != 0 \&\& sim.now - slot->begun_at < 60)\n\t\treturn true;\n&/
