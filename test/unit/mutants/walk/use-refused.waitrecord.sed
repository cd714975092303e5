# A record with a use that is not known is not understood.
/^parse_line(/,/^}/ s/return true/return false/
