# Scenario all-events
# An event reaches the first receiver only.
/^deliver(/,/^}/s/receiver->process(message, receiver->owner);/{ receiver->process(message, receiver->owner); break; }/
