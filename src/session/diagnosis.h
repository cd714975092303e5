/*-------------------------------------------------------------------------
 *
 * diagnosis.h
 *	  Why ZooKeeper's servers do not answer.
 *
 * Promises an error whose detail says of each server in zklock.hosts what is wrong
 * with it, as far as a short look at it tells.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DIAGNOSIS_H
#define ZKLOCK_DIAGNOSIS_H

/*
 * Look at each server, unless that has begun already.  It takes a moment, which the
 * errors below wait for unless it was begun before them.
 */
extern void zklock_diagnosis_begin(void);

/* Nobody needs what was seen.  Raises nothing. */
extern void zklock_diagnosis_forget(void);

/* ERROR 08006 with this primary message: there was a connection, but no answer. */
extern void zklock_diagnosis_raise_silence(const char *message);

/* ERROR 08001: there is no connection.  The detail begins with this one. */
extern void zklock_diagnosis_raise_unreachable(const char *detail);

#endif							/* ZKLOCK_DIAGNOSIS_H */
