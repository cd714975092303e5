# Seed 1051
# Who has forgotten its last lock may be disconnected.
/^zklock_disconnect_resume/,/^}/{
/^\tif (!holds)$/,/zklock_disconnect_pause/d
}
