# Seed 30
s/sim.reuse_prefix = sim_percent(10);/sim.reuse_prefix = true;/
