# Scenario all-try-unanswered
# A look that was not answered counts as refused.
/^look(/,/^}/s/zklock_attempt_raise(attempt);/;/
