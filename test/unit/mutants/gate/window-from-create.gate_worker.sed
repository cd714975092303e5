# Seed 1
# Begin the window with the request for the node.
s/a->recipe.outcome.token, sim.now, gate_tell/a->recipe.outcome.token, slot->begun_at, gate_tell/
