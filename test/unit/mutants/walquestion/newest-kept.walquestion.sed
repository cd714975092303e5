# Seed 12
# A newer answer takes the place of the one that is waited for.
/^zklock_walwait_answered/,/^}/{
s/ && find_kept(wait, answer->server) < 0)/)/
s/kept\[wait->n++\]/kept[find_kept(wait, answer->server) < 0 ? wait->n++ : find_kept(wait, answer->server)]/
}
