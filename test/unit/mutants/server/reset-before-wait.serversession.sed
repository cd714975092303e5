# Seed 5
# A backend resets its latch before it sleeps, not when it wakes.
/^wait_latch/,/^}/{
	/^.ResetLatch(MyLatch);/d
	s/^.(void) WaitLatch(/	ResetLatch(MyLatch);\
&/
}
