# Leave: look for a node of unknown name without a sync.
s/SIM_DELETE : SIM_SYNC/SIM_DELETE : SIM_LIST/
