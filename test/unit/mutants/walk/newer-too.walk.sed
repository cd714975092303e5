# Seed 104
# A walk considers newer records.
/^judge(/,/^}/ s/search(walk, walk->self->czxid)/search(walk, INT64_MAX)/
