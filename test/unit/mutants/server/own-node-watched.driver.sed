# Scenario own-simple
# A simple lock's node that is found to be its own stays watched.
/^feed(/,/^}/s/driver->recipe.fixed && driver->recipe.nearest.request != 0/false/
