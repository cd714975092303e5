# Seed 5
# The question serves a ticket that was drawn after it.
/^zklock_asker_asked/,/^}/s/asker->ticket = ticket;/asker->ticket = ticket + 1;/
