# Count the window from when the node was asked for.
s/a->recipe.token, sim.now, gate_tell/a->recipe.token, place->begun_at, gate_tell/
