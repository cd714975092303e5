# Seed 6762
# Who begins again behind others leaves the watches of its former place.
/^feed(/,/^}/s/^\tunwatch_former(.*//
