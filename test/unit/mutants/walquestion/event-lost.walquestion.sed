# Seed 1
# An event that arrives before the reply is lost.
/^zklock_answerer_reads/,/^}/s/answerer->watching = true/answerer->watching = answerer->watching/
/^zklock_answerer_read(/,/^}/s/answerer->question = question;/& answerer->watching = true;/
