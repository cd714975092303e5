/*-------------------------------------------------------------------------
 *
 * process.h
 *	  The part of PostgreSQL that belongs to one process, for code without PostgreSQL.
 *
 * This is in each process's copy of the library.  It holds the process's own
 * state, such as MyProc.  Everything that processes share goes through shim.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_PROCESS_H
#define SHIM_PROCESS_H

/*
 * Begins as a backend does: with this number, this id and the server's shared
 * memory, which is empty for the first process.
 */
extern void shim_process_begin(int procno, int pid, int nprocs);

/* Does it only look, as a checker, and needs no LWLock for that? */
extern bool shim_looks;

/* The role that it has logged in as */
extern unsigned shim_role;

/* Runs the functions that were registered with on_shmem_exit(). */
extern void shim_process_end(void);

#endif							/* SHIM_PROCESS_H */
