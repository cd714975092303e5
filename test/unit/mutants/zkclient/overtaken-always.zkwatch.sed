# Each request of a watch counts as overtaken.
/^zklock_zkwatch_request(/,/^}/ s/(\*where)->overtaken = (\*where)->nsenders > 0;/(*where)->overtaken = (*where)->nremovals > 0;/
