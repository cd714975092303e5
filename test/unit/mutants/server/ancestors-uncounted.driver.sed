# Seed 13123
# Parents that are being created do not count as creates under way.
/^zklock_driver_creating(/,/^}/ s/(r->parents != 0 ? driver->nparents : 0)/0/
