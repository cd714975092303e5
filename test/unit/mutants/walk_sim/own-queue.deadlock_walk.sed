# Seed 3
# Only the queue of the process itself is read.
/^need_more(/,/^}/ s/node->record->reached)/node->record == walk->self)/
