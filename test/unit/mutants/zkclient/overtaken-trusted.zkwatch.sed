# A watch that its removal may have removed is waited for.
/^zklock_zkwatch_removal_sent(/,/^}/ s/if (overtaken)/if (false)/
