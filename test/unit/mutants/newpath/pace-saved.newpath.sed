# Who has created nothing for an hour may create an hour's containers at once.
/if (\*used_until < now)/,/\*used_until = now;/d
