# Seed 26
# An attempt that is undone is not given up.
/^abandon(/,/^}/s/^.give_up(node_claim);//
