# Seed 28
# A list keeps an attempt that has ended, and wanted parents.
/^remove_attempt/,/^}/s/set_wants_parents(attempt, false);//
