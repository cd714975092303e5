# Seed 1698
# Leave: look for a node of ours without a sync.
s/^\t\t\tSIM_SYNC : is_name_shared/\t\t\t(own->plain ? SIM_GET : SIM_LIST) : is_name_shared/
