# Seed 10
# Of several locks, keep or queue for later ones while waiting for one.
/^settle_first/,/^}/ s/^\t\tsim_runner_release(&d->runner, &d->runner.attempts\[i\]);$//
/^begin_from/,/^}/ s/^\t\tbegin_attempt/\t\tif (d->runner.attempts[i].progress == SIM_UNUSED)\n&/
