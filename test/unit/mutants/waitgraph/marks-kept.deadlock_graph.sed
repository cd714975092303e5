# Seed 136
# The marks of the first search hold for the second.
s/^\t\tgraph->positions\[i\].passed_by_writer = .*/\t\tif (!only_stuck) graph->positions[i].passed_by_writer = graph->positions[i].passed_by_reader = false;/
