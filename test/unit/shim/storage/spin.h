/*-------------------------------------------------------------------------
 *
 * spin.h
 *	  Stands for PostgreSQL's storage/spin.h.  See shim.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SPIN_H
#define SPIN_H

#include "shim/shim.h"
#include "storage/s_lock.h"

#define SpinLockInit(lock) shim_write(lock, sizeof(slock_t), 0)
#define SpinLockAcquire(lock) shim_spin_acquire(lock)
#define SpinLockRelease(lock) shim_spin_release(lock)

#endif							/* SPIN_H */
