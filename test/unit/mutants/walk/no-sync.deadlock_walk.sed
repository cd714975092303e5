# The second pass follows without a sync.
/^judge_first_pass(/,/^}/ s/walk->phase = SYNC;/walk->phase = READ_AGAIN;/
