# Search readers
# A reader that does not wait is refused because another one waits.
/^mind_others(/,/^}/ s/(turn->prev == NULL || gate->shared)/turn->prev == NULL/
