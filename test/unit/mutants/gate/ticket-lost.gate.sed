# Seed 1
# Who was told of the session's end begins at the tail.
/^fail(/,/^}/ s/if (verdict != ZKLOCK_EXPIRED)/if (verdict != ZKLOCK_PENDING)/
