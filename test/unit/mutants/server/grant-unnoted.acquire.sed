# Seed 1
# A grant is not noted.
/^note_result/,/^}/ s/if (granted ||/if (!granted \&\&/
