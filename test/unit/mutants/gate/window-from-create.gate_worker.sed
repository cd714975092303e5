# Seed 1
# Count the window from when the node was asked for.
s/a->recipe.token, sim.now, gate_tell/a->recipe.token, slot->begun_at, gate_tell/
