# An attempt without a wait waits behind others of its server.
/^mind_others/,/^}/ s/if (turn->nowait)/if (turn->nowait \&\& gate->node.queued)/
