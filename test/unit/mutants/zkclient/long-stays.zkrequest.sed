# A long list counts as under way for ever.
s/client->nlong_lists -= request->is_long;/;/
