# Seed 42
# The next question is asked as soon as the last one was answered.
s/ZKLOCK_ANSWERER_PACE : ZKLOCK_ASKER_PATIENCE/0 : ZKLOCK_ASKER_PATIENCE/
