# Seed 4
# A question is asked while another one is under way.
s/asker->answered >= asker->question ?/true ?/
