# Seed 19
# The record of a wait is not deleted before that of the next one.
s/records\[i\]->serial != requests\[i\].wanted)/requests[i].wanted != 0 \&\& &/
