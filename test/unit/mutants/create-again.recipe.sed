# Seed 7
# After a connection loss, create again without looking for the first node.
/^recover/,/^}/ s/^\tlist_queue(.*$/\tif (r->outcome.name[0] == '\\0')\n\t\tcreate_queued(r, false, out);\n\telse\n\t&/
