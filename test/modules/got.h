/*
 * Has zklock call functions of a test's instead of others', and a chosen one of these
 * calls is another than the rest: replaces the addresses that zklock has of them.  For
 * libraries that are preloaded behind it.
 */
#ifndef GOT_H
#define GOT_H

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Replacement
{
	const char *name;			/* NULL: the last one */
	void	   *address;
} Replacement;

/* Where zklock has the address of a function, if it is one of these, put ours. */
static void
replace(const Replacement *mine, ElfW(Addr) base, const char *name,
		ElfW(Addr) offset)
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

/* `arg` are the replacements; it is called for each library. */
static int
patch(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Dyn) *dyn = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	const ElfW(Rela) *tables[2] = {NULL, NULL};
	size_t		bytes[2] = {0, 0};

	if (strstr(info->dlpi_name, "/zklock.so") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dyn = (const ElfW(Dyn) *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	for (; dyn != NULL && dyn->d_tag != DT_NULL; dyn++)
	{
		switch (dyn->d_tag)
		{
			case DT_SYMTAB:
				symbols = (const ElfW(Sym) *) dyn->d_un.d_ptr;
				break;
			case DT_STRTAB:
				names = (const char *) dyn->d_un.d_ptr;
				break;
			case DT_JMPREL:
				tables[0] = (const ElfW(Rela) *) dyn->d_un.d_ptr;
				break;
			case DT_PLTRELSZ:
				bytes[0] = dyn->d_un.d_val;
				break;
			case DT_RELA:
				tables[1] = (const ElfW(Rela) *) dyn->d_un.d_ptr;
				break;
			case DT_RELASZ:
				bytes[1] = dyn->d_un.d_val;
				break;
		}
	}
	for (int t = 0; t < 2; t++)
	{
		for (size_t i = 0; i < bytes[t] / sizeof(ElfW(Rela)); i++)
		{
			const ElfW(Rela) *r = &tables[t][i];

			if (ELF64_R_SYM(r->r_info) != 0)
				replace(arg, info->dlpi_addr,
						names + symbols[ELF64_R_SYM(r->r_info)].st_name, r->r_offset);
		}
	}
	return 1;
}

/* Memory of that size that all processes have, once zklock is patched. */
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

/* In memory of all processes */
typedef struct Calls
{
	volatile int pid;			/* whose calls count; 0: nobody's */
	volatile int n;				/* so many there were */
	volatile int which;			/* the chosen one */
} Calls;

/* Counts a call: is it the chosen one? */
static bool
is_chosen(Calls *calls)
{
	return calls->pid != 0 && calls->pid == (int) getpid() &&
		__sync_add_and_fetch(&calls->n, 1) == calls->which;
}

/* Choose the n-th call of a process from now on; pid 0: none. */
static void
choose(Calls *calls, int pid, int which)
{
	calls->pid = 0;
	calls->n = 0;
	calls->which = which;
	calls->pid = pid;
}

#endif							/* GOT_H */
