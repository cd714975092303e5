# Scenario told-gone
# Locks that an error has named as lost are kept if the session is back before they are forgotten.
/^zklock_lease_forget(/,/^}/s/!was_gone && //
