# Keep a node that is not wanted any more: somebody here may want it soon.
s/^\tif (place->had != 0)$/\tif (place->had != 0 \&\& sim.now - place->begun_at < 60)\n\t\treturn true;\n&/
