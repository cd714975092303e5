# Seed 111
# A walk considers newer records.
/^search(/,/^}/ s/ \&\& node->record->czxid <= walk->self->czxid//
