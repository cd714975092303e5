# Seed 1
# Zero permits are taken for those of a count in modes without permits, too.
/^zklock_recipe_begin(/,/^}/ s/mode->has_permits \&\& params->permits == ZKLOCK_COUNTED/params->permits == ZKLOCK_COUNTED/
