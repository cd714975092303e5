# A process is the victim if it blocks another one with its wait only.
s/\.of_wait = waits(node)/.of_wait = false/
