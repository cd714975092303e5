# Seed 1
# A session is taken for gone before it is.
/^is_gone_after/,/^}/s/confirmed + timeout_of_session()/confirmed + timeout_of_session() \/ 2/
