# Who does not want to wait does.
s/if (ahead && turn->nowait)/if (ahead \&\& turn->nowait \&\& gate->queued)/
