# Seed 7
# A newer answer takes the place of the one that is waited for.
/^zklock_walwait_answered/,/^}/s/^			return;/			wait->kept[i].answer = *answer;/
