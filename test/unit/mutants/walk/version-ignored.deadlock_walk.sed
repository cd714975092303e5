# A record of another version is read as if it were of this one.
/^parse_head(/,/^}/ s/strcmp(text->head\[0\], VERSION) == 0/true/
