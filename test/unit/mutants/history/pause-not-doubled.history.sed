# A pause is as long as the first one, however soon it follows.
s/pause = 2 \* history->pause;/pause = history->pause;/
