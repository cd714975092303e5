# A record is not read again for another queue.
/^want_records(/,/^}/ s/record->asked = false;/;/
