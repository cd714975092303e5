# Seed 593
# An attempt that is abandoned does not show that its granted node was deleted.
/is_deleted(attempt->node))/s/^/		false \&\&/
