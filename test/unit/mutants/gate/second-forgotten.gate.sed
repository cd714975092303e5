# When an earlier waiter takes its place again, ignore an attempt without a wait ahead.
/^settle(/,/^}/ s/!gate->shared ? 2 :/!gate->shared ? 1 :/
