# Seed 998
# A process in the cycle may have published a record since.
/^go_on(/,/^}/ s/has_unnamed(walk) ?/has_unnamed(walk) \&\& false ?/
