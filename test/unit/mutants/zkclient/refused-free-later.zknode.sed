# A node that ZooKeeper has refused to delete is expected to make room.
/^delete_step_done(/,/^}/ s/count_given_up(node, false);/;/
