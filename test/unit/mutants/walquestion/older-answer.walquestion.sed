# Seed 1
# An answer to an older question counts.
s/answer->position.question >= wait->question/true/
