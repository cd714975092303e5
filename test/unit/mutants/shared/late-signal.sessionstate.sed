# A signal cancels the statement that runs when it arrives.
/^take_requests/,/^}/s/take_request(&signalled->on_loss\[ZKLOCK_SIGNAL_CANCEL\], from)/true/
