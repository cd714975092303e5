# ... and all drivers keep their prefix from session to session.
s/sim.reuse_prefix = percent(10);/sim.reuse_prefix = true;/
