# After a connection loss, create again without looking for the first node.
/^recover/,/^}/ s/^\tr->list = zklock_recipe_ask(.*$/\tif (r->name[0] == '\\0')\n\t\tzklock_recipe_enter(r, false, out);\n\telse\n\t&/
