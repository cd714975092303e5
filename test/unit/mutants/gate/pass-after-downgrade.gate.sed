# Pass a lock on although a reader's node was made under it.
s/fit && !gate->barred &&/fit \&\&/
