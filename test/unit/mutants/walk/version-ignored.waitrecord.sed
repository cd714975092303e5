# A record of another version is read as if it were of this one.
/^zklock_waitrecord_open(/,/^}/ s/strcmp(head\[0\], VERSION) != 0/false/
