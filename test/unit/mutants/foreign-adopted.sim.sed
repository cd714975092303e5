# ... and all drivers keep their prefix from session to session.
s/sim.reuse_prefix = sim_percent(10);/sim.reuse_prefix = true;/
