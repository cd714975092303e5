# Seed 1
# A reply reaches all receivers in its list.
/^deliver(/,/^}/s/receiver->requester == message->tag.requester/true/
