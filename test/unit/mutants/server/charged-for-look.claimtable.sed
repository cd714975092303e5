# Seed 158757
# A kept node stays charged, if its last claim was charged for an attempt of its own.
/^zklock_claimtable_free/,/^}/{
	/if (entry->gate.state == ZKLOCK_GATE_KEPT)/{
		n
		s/zklock_owners_discharge(&claim->charge)/(void) 0/
	}
}
