# Seed 2
# Only the first question is answered.
/^zklock_answerer_due/,/^}/s/answerer->question == answerer->position.question/answerer->position.question != 0/
