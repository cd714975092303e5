# Seed 26164
# A list that is answered in the next epoch leaves its watch when the node is gone.
/^finish_look/,/^}/s/keeper->look = 0;/&\
	keeper->unseen = 0;/
