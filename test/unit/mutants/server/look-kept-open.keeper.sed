# Seed 3865
# A list that was asked for in a former epoch stays asked for.
/^check(/,/^}/{
/look_epoch != zklock_sessionstate_epoch/,+1d
}
