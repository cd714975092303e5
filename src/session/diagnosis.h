/*-------------------------------------------------------------------------
 *
 * diagnosis.h
 *	  Finds out why ZooKeeper's servers do not answer.
 *
 * Promises that the detail of an error describes, for each server in zklock.hosts, what is
 * wrong with it, as far as a short probe shows it, and that only the errors wait for the
 * probe.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DIAGNOSIS_H
#define ZKLOCK_DIAGNOSIS_H

/*
 * Begin to probe each server, unless that has begun already.  The result takes
 * a moment.  The errors below wait for it, at most 300 ms.
 */
extern void zklock_diagnosis_begin(void);

/* Discard the results.  Raises nothing. */
extern void zklock_diagnosis_discard(void);

/*
 * ERROR 08006 with this primary message: there was a connection, but no
 * answer.
 */
extern void zklock_diagnosis_raise_no_answer(const char *message);

/* ERROR 08001: there is no connection.  The detail begins with `detail`. */
extern void zklock_diagnosis_raise_unreachable(const char *detail);

#endif							/* ZKLOCK_DIAGNOSIS_H */
