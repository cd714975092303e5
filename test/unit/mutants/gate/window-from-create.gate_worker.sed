# Seed 1
# Begin the window with the request for the node.
s/a->recipe.token, sim.now, gate_tell/a->recipe.token, slot->begun_at, gate_tell/
