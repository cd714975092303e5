# A process with a newer record does not wait, either.
/^search_cycle(/,/^}/ s/ || waits(node)) &&/) \&\&/
