# A watch for revocation that lacked memory is set on the next connection only.
/^set_unwatched(/,/^}/ s/node->client->postponed = true;/;/
