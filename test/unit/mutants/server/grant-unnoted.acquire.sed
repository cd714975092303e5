# Seed 1
# A grant is not noted.
/^note_results/,/^}/ s/if (granted || (/if (!granted \&\& (/
