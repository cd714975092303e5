# Seed 318
# A loss while no loss was signalled is not looked for.
/^zklock_cancel_resume/,/^}/s/if (!zklock_lease_is_any_doubtful())/if (true)/
