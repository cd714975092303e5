/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Is what this backend holds still held?
 *
 * Promises that after zklock_lease_confirm() every lock of this backend was
 * held at some moment since the lease began, as far as the setting
 * zklock.confirm_commit asks for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

/*
 * ERROR 40001 if a lock is known to have gone with its session.  It dooms the
 * transaction, whatever savepoint the error is caught at.
 */
extern void zklock_lease_check(void);

/*
 * To be called when a transaction has been aborted: session holds whose loss
 * was its end are forgotten, or else the session could never do anything again.
 * Raises and allocates nothing.
 */
extern void zklock_lease_forget(void);

/*
 * To be called before a commit.  Besides zklock_lease_check(): if no reply of
 * the leader has confirmed the session for a third of its timeout, ask for one
 * and wait for it, up to zklock.connect_timeout.  ERROR 40001 without it.
 */
extern void zklock_lease_confirm(void);

#endif							/* ZKLOCK_LEASE_H */
