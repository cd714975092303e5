# Seed 27
# Readers are not shut out when writers that wait get another node.
/^zklock_slots_give_up(/,/^}/ s/if (handed_back)/if (handed_back \&\& false)/
