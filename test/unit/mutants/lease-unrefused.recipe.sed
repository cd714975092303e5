# Seed 2175
# An attempt for a lease that does not want to wait gets no answer.
/^process_leases/,/^}/ s/refuse(r, out);/(void) 0;/
