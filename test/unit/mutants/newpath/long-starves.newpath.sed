# A path waits until there is room for all of its parts.
s/if (\*used_until >= now/if (*used_until + (n - 1) * INTERVAL >= now/
