# Scenario room-first
# Who is first at a gate when another role is refused is not served.
/^zklock_slots_refuse(/,/^}/s/zklock_slots_post(slot);/;/
