# Seed 32
# The watch on a count is removed only if the count was read, or is being read.
/^unwatch_count/,/^}/s/count != NULL/& \&\& (driver->recipe.count != 0 || driver->recipe.size != 0)/
