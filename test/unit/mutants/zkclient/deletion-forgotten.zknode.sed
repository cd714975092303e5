# A deletion that lacked memory is not sent again.
/^postpone(/,/^}/ s/client->postponed = true;/;/
