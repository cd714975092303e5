# Seed 2
# An abandoned attempt does not release its slot.
/^abandon(/,/^}/s/^.release_slot(attempt->claim);//
