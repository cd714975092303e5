# Seed 2
# After a connection loss, create again without looking for the first node.
/^recover/,/^}/ s/^\tzklock_recipe_list(.*$/\tif (r->outcome.name[0] == '\\0')\n\t\tzklock_recipe_create(r, false, out);\n\telse\n\t&/
