# Seed 6660
# A deadlock that is left to another process is not looked for again.
/^judge(/,/^}/ s/left ? ZKLOCK/left \&\& false ? ZKLOCK/
