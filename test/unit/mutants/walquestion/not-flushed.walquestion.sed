# Seed 1
# A record is published that is not flushed.
/^zklock_answerer_written/,/^}/s/ZKLOCK_ANSWER_FLUSH;/ZKLOCK_ANSWER_PUBLISH;/
