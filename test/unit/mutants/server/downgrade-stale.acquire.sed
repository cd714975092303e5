# Seed 7650
# Neither need a reader under a stronger lock.
/^has_caught_up(/,/^}/{
s/if (request->from == NULL ||/if (request->from == NULL)/
/!find_other_mode(request->path, request->params.mode)->caught_up)/d
}
