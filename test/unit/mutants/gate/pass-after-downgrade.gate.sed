# Hand a lock over although a reader's node was created under it.
s/fit && !gate->node.handover_forbidden &&/fit \&\&/
