# Seed 998
# A process with a newer record counts as one without a record.
/^add_unnamed(/,/^}/ s/if (node->queue == queue \&\& /&node->record->czxid <= walk->self->czxid \&\& /
