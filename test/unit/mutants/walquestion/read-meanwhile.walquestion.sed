# Seed 76
# A question that is read while a record is written counts as answered by it.
/^zklock_answerer_next/,/^}/s/answerer->step != ZKLOCK_ANSWER_READ)/answerer->step != ZKLOCK_ANSWER_READ \&\& answerer->watching)/
/^zklock_answerer_read(/,/^}/s/answerer->question = question;/& if (answerer->step != ZKLOCK_ANSWER_READ) answerer->position.question = question;/
