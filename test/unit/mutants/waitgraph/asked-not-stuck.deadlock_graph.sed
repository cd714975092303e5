# Seed 136
# A process that waits for another reason is never stuck.
/^is_stuck(/,/^}/ s/i < n; i++/i < n \&\& false; i++/
