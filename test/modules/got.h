/*
 * Replaces functions that zklock calls by a test's own: it overwrites the
 * addresses of these functions in zklock's global offset table. One chosen
 * call of them can behave differently. For libraries that are preloaded after
 * zklock.
 */
#ifndef GOT_H
#define GOT_H

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

typedef ElfW(Addr)
Addr;
typedef ElfW(Dyn)
Dyn;
typedef ElfW(Rel)
Rel;
typedef ElfW(Rela)
Rela;
typedef ElfW(Sym)
Sym;

typedef struct Replacement
{
	const char *name;			/* NULL: end of the list */
	void	   *address;
} Replacement;

/* Relocations: those of i386 have no addend, but begin as others do. */
typedef struct Table
{
	const char *begin;
	size_t		bytes;
	size_t		entry_size;
} Table;

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

/* Replaces the address of a function in zklock if it is in the list. */
static void
replace(const Replacement *mine, Addr base, const char *name,
		Addr offset)
{
	void	  **slot = (void **) (base + offset);
	uintptr_t	page = (uintptr_t) slot & ~((uintptr_t) getpagesize() - 1);

	for (; mine->name != NULL; mine++)
	{
		if (strcmp(mine->name, name) != 0)
			continue;
		if (mprotect((void *) page, getpagesize(), PROT_READ | PROT_WRITE) != 0)
			elog(ERROR, "mprotect: %m");
		*slot = mine->address;
	}
}

/*
 * Callback of dl_iterate_phdr(), for each library; `arg` is the list of
 * replacements.
 */
static int
patch(struct dl_phdr_info *info, size_t size, void *arg)
{
	const Dyn  *dyn = NULL;
	const Sym  *symbols = NULL;
	const char *names = NULL;
	Table		tables[] = {{NULL, 0, 0}, {NULL, 0, sizeof(Rela)}, {NULL, 0, sizeof(Rel)}};

	if (strstr(info->dlpi_name, "/zklock.so") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dyn = (const Dyn *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	for (; dyn != NULL && dyn->d_tag != DT_NULL; dyn++)
	{
		switch (dyn->d_tag)
		{
			case DT_SYMTAB:
				symbols = (const Sym *) dyn->d_un.d_ptr;
				break;
			case DT_STRTAB:
				names = (const char *) dyn->d_un.d_ptr;
				break;
			case DT_JMPREL:
				tables[0].begin = (const char *) dyn->d_un.d_ptr;
				break;
			case DT_PLTRELSZ:
				tables[0].bytes = dyn->d_un.d_val;
				break;
			case DT_PLTREL:
				tables[0].entry_size = dyn->d_un.d_val == DT_RELA ? sizeof(Rela) : sizeof(Rel);
				break;
			case DT_RELA:
				tables[1].begin = (const char *) dyn->d_un.d_ptr;
				break;
			case DT_RELASZ:
				tables[1].bytes = dyn->d_un.d_val;
				break;
			case DT_REL:
				tables[2].begin = (const char *) dyn->d_un.d_ptr;
				break;
			case DT_RELSZ:
				tables[2].bytes = dyn->d_un.d_val;
				break;
		}
	}
	for (size_t t = 0; t < lengthof(tables); t++)
	{
		for (size_t at = 0; at < tables[t].bytes; at += tables[t].entry_size)
		{
			const Rel  *r = (const Rel *) (tables[t].begin + at);

			if (SYMBOL_OF(r->r_info) != 0)
				replace(arg, info->dlpi_addr,
						names + symbols[SYMBOL_OF(r->r_info)].st_name, r->r_offset);
		}
	}
	return 1;
}

/* Patches zklock, and returns memory of that size that all processes share. */
static void *
patch_zklock(const Replacement *mine, size_t size)
{
	void	   *control = mmap(NULL, size, PROT_READ | PROT_WRITE,
							   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (control == MAP_FAILED)
		elog(ERROR, "mmap: %m");
	if (dl_iterate_phdr(patch, unconstify(Replacement *, mine)) == 0)
		elog(ERROR, "zklock is not loaded");
	return control;
}

/* In shared memory */
typedef struct Calls
{
	volatile int pid;			/* process whose calls count; 0: none */
	volatile int n;				/* number of calls so far */
	volatile int which;			/* number of the chosen call */
} Calls;

/* Counts a call, and returns whether it is the chosen one. */
static bool
is_chosen(Calls *calls)
{
	return calls->pid != 0 && calls->pid == (int) getpid() &&
		__sync_add_and_fetch(&calls->n, 1) == calls->which;
}

/* Chooses the n-th call of a process from now on; pid 0: none. */
static void
choose(Calls *calls, int pid, int which)
{
	calls->pid = 0;
	calls->n = 0;
	calls->which = which;
	calls->pid = pid;
}

#endif							/* GOT_H */
