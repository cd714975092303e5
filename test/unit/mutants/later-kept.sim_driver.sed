# Of several locks, keep or queue for later ones while waiting for one.
/^settle_first/,/^}/ s/^\t\tleave(d, &d->attempts\[i\]);$//
/^begin_from/,/^}/ s/^\t\tbegin_new_attempt/\t\tif (d->attempts[i].progress == SIM_UNUSED)\n&/
