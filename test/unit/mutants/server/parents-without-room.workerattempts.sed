# Seed 13123
# Parents are created however many creates are under way.
/^process_parents(/,/^}/s/if (!has_room(is_session))/if (!is_session)/
