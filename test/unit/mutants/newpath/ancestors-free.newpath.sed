# A path counts as one container, however many of its parts are missing.
s/+= n \* INTERVAL;/+= INTERVAL;/
