# Seed 2
# A node that is not wanted is kept: a backend may want it soon.
/^process_slot/,/^}/s/^.if (attempt != NULL)$/	if (attempt != NULL \&\& request->wanted == 0 \&\& (attempt->serial \& 3) == 0)\
		return;\
&/
