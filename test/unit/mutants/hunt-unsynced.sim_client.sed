# Leave: look for a node of ours without a sync.
s/ask_first ? SIM_SYNC : SIM_DELETE/ask_first ? (own->plain ? SIM_GET : SIM_LIST) : SIM_DELETE/
