# A signal cancels the statement that runs when it arrives.
/^on_signal/,/^}/s/pg_atomic_compare_exchange_u32(&signalled->cancel_on_loss, &sent, CANCEL_DONE)/sent/
