# Locks use the part for records of waits.
/^room_for(/,/^}/ s/limit -= RECORDS(limit);/;/
