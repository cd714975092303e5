# A node whose list was long once is noted forever.
/else if (\*noted == hash)/,/\*noted = 0;/d
