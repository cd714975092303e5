# Scenario revoke-explained
# A session that ends while a cancellation is explained is not looked for.
/^zklock_loss_explain/,/^}/{
	/If the session has ended/,$s/zklock_lease_explain();//
}
