# Scenario own-undeleted
# Who looks at its session, and has no receiver, takes the news from its next wait.
/^free_messages(/,/^}/ s/stale = false;/stale = news = false;/
