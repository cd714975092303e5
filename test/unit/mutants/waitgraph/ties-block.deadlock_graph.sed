# Seed 136
# Positions of the same number and rank block each other.
/^is_ahead(/,/^}/ s/return .*;/return ahead != p;/
