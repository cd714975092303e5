# A backend that was woken in vain is not woken again.
/^begin_to_wait/,/^}/{
	/me->woken = false;/d
}
