# Seed 27
# Who looks does so although the gate has a node.
/slot->params.only_looks &=/,/;/d
