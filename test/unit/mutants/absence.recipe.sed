# Do not mind that our own node is not in the list.
s/if (!present)/if (!present \&\& false)/
