# After a connection loss, create again without looking for the first node.
/^recover/,/^}/ s/^\tr->list = ask(.*$/\tif (r->name[0] == '\\0')\n\t\tenter(r, false, out);\n\telse\n\t&/
