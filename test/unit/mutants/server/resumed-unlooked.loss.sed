# Seed 95
# A loss while no loss was signalled is not looked for.
/^zklock_loss_resume/,/^}/s/if (lost == NULL)/if (true)/
