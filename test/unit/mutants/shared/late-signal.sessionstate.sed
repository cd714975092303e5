# A signal cancels the statement that runs when it arrives.
/^on_signal/,/^}/s/take_request(&signalled->cancel_on_loss)/true/
