# Seed 2814
# Who begins again behind others leaves the watches of its former place.
/^feed(/,/^}/s/^\tunwatch_former(.*//
