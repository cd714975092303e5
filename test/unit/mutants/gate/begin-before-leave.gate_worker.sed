# Seed 572
# Request a new node before the old one can be deleted.
/^is_in_the_making/,/^}/ s/return own != NULL &&/return own != NULL \&\& false \&\&/
