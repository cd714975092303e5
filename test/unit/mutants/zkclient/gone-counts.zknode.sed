# A node that is gone counts as long as a request knows it.
/^delete_step_done(/,/^}/ s/stop_counting(node);/;/
