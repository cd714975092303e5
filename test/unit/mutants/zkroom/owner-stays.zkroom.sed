# An owner stays when its last node is gone.
/^join_owner/,/^}/ s/owner->nnodes++/owner->nnodes += 2/
