# Seed 35714
# A record without a listed node is kept.
/^counts(/,/^}/ s/return any && text\.understood/return (any || true) \&\& text.understood/
