# Seed 2
# A grant of several locks is not noted.
/^note_results/,/^}/ s/if (granted || (/if (!granted \&\& (/
