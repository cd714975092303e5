# A signal cancels the statement that runs when it arrives.
/^take_requests/,/^}/s/take_request(&signalled->cancel_on_loss, from)/true/
