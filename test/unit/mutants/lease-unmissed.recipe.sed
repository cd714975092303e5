# Seed 52604
# A lease that somebody has deleted is not made again.
/^process_leases/,/^}/ s/create_queued(r, false, out);/(void) out;/
