# A short list of one node has another one forgotten.
s/else if (\*noted == hash)/else/
