# A pause is doubled however late it follows.
s/ \&\& now - history->pause_until < 10 \* history->pause)/)/
