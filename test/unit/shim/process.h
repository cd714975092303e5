/*-------------------------------------------------------------------------
 *
 * process.h
 *	  One process's part of PostgreSQL, for code that runs without it.
 *
 * This is in each process's copy of the library.  It holds the process's own
 * state, such as MyProc.  Everything that processes share goes through shim.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_PROCESS_H
#define SHIM_PROCESS_H

/*
 * Begin as a backend does: with this number, this id and the server's shared
 * memory, which the first process finds empty.
 */
extern void shim_process_begin(int procno, int pid, int nprocs);

/* Run what was registered with on_shmem_exit(). */
extern void shim_process_end(void);

#endif							/* SHIM_PROCESS_H */
