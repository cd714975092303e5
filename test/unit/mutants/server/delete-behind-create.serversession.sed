# Seed 28
# A kept node that is in the way of its own server goes behind the request for the next one.
/^begin_attempt(/,/^}/{
	/^	if (request->from == NULL && !request->params.only_looks)$/,/make_way/d
	s/^	zklock_slots_request(.*/&\
	if (request->from == NULL \&\& !request->params.only_looks)\
		zklock_slots_make_way(attempt->claim, asked.at_gate);/
}
