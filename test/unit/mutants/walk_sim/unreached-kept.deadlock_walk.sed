# Seed 35714
# A record without a listed node is kept.
/^counts(/,/^}/ s/any && text\.understood/text.understood/
