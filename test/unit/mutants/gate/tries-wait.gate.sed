# Seed 6
# Who does not want to wait does, behind others of his server.
/^mind_others/,/^}/ s/if (turn->nowait)/if (turn->nowait \&\& gate->queued)/
