# Seed 2
# A session has the marks of the one before.
/^begin/,/^}/s/memset(tending, 0, sizeof(.tending));/tending->proof.connection = 0;/
