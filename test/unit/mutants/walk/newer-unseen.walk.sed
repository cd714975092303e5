# Seed 11390
# A process with a newer record does not wait, either.
/^search(/,/^}/ s/ || waits(node)) &&/) \&\&/
