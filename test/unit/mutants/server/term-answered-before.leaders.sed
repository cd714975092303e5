# Seed 12869
# A guard takes the answer to a former question.
/^zklock_leaders_is_answered(/,/^}/s/if (answered)$/if (true)/
