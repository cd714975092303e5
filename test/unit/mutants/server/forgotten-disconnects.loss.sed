# Seed 1627
# Who has forgotten its last lock may be disconnected.
/^zklock_loss_relied_on/,/^}/{
/^\tif (!holds)$/,/pause_disconnect_on_loss/d
}
