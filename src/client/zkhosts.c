/*-------------------------------------------------------------------------
 *
 * zkhosts.c
 *	  The addresses of ZooKeeper's servers.  See zkhosts.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkhosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "protocol/check.h"

/* Number of times that each address is in a long list, see zkhosts.h.  Must be odd. */
#define ROUNDS 25

/*
 * Of more addresses, each is listed fewer times.  The library reads the whole
 * list whenever it tries an address, and compares each position with all.
 */
#define MANY 10

/* A name that has one address at first may get as many as an ensemble has. */
#define MIN_NAMED 3

/* The last positions, in turn, of a list that can change */
#define N_EXTRA 2

/* Addresses that are not fresh are in each round that this divides. */
#define STALE_ROUNDS 10

/*
 * Addresses of no host: broadcast and multicast addresses.  The library may
 * know only one of the families.
 */
static const char *const unreachable[2][2] = {
	{"255.255.255.255:1", "224.0.0.0:1"},
	{"ff00::1:1", "ff00::2:1"}
};

static bool
append(ZkLockAddresses *list, const ZkLockAddress *address)
{
	ZkLockAddress *item = realloc(list->item, (list->n + 1) * sizeof(*item));

	if (item == NULL)
		return false;
	list->item = item;
	item[list->n++] = *address;
	return true;
}

bool
zklock_zkhosts_add(ZkLockAddresses *list, int host, const char *address,
				   const char *port)
{
	ZkLockAddress item = {.host = host};

	snprintf(item.text, sizeof(item.text), "%s:%s", address, port);
	return append(list, &item);
}

bool
zklock_zkhosts_keep(ZkLockAddresses *list, const ZkLockAddresses *former)
{
	list->fresh = list->n;
	for (int i = 0; i < former->n; i++)
	{
		bool		known = false;

		for (int j = 0; j < list->fresh; j++)
			known |= list->item[j].host == former->item[i].host;
		if (!known && !append(list, &former->item[i]))
			return false;
	}
	return true;
}

/* Is the address among the first `n` of the list? */
static bool
is_among(const ZkLockAddresses *list, int n, const char *text)
{
	for (int i = 0; i < n; i++)
		if (strcmp(list->item[i].text, text) == 0)
			return true;
	return false;
}

int
zklock_zkhosts_count(const ZkLockAddresses *list)
{
	int			n = list->fresh > 0 ? list->fresh : list->n;
	int			count = 0;

	for (int i = 0; i < n; i++)
		count += !is_among(list, i, list->item[i].text);
	return count;
}

/* Are the addresses of a list in another one, and the fresh ones fresh? */
static bool
is_part_of(const ZkLockAddresses *a, const ZkLockAddresses *b)
{
	for (int i = 0; i < a->n; i++)
		if (!is_among(b, i < a->fresh ? b->fresh : b->n, a->item[i].text))
			return false;
	return true;
}

bool
zklock_zkhosts_equal(const ZkLockAddresses *a, const ZkLockAddresses *b)
{
	return is_part_of(a, b) && is_part_of(b, a);
}

void
zklock_zkhosts_shuffle(ZkLockAddresses *list)
{
	for (int i = list->n - 1; i > 0; i--)
	{
		unsigned	random = 0;
		ZkLockAddress item = list->item[i];
		int			j;

		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
			return;
		j = random % (i + 1);
		list->item[i] = list->item[j];
		list->item[j] = item;
	}
}

void
zklock_zkhosts_free(ZkLockAddresses *list)
{
	free(list->item);
	list->item = NULL;
	list->n = list->fresh = 0;
}

bool
zklock_zkhosts_read(const char *text, char address[ZKLOCK_ADDRESS_SIZE])
{
	size_t		len = 0;

	for (; *text != ' ' && *text != '\0'; text++)
	{
		if (*text == '[' || *text == ']')
			continue;
		if (len == ZKLOCK_ADDRESS_SIZE - 1)
			return false;
		address[len++] = *text;
	}
	address[len] = '\0';
	return len > 0;
}

/* For how many addresses must a list have room? */
static int
room(const ZkLockAddresses *list)
{
	int			n = zklock_zkhosts_count(list);

	if (list->named && n < list->nhosts)
		n = list->nhosts;
	return list->named && n < MIN_NAMED ? MIN_NAMED : n;
}

int
zklock_zkhosts_first_positions(const ZkLockAddresses *list)
{
	int			n = (room(list) + N_EXTRA) | 1;
	int			later = zklock_zkhosts_positions(list);

	return n < later ? n : later;
}

int
zklock_zkhosts_positions(const ZkLockAddresses *list)
{
	int			n = room(list);

	if (n <= MANY)
		n *= ROUNDS;
	else if (n < MANY * ROUNDS)
		n = MANY * ROUNDS;
	return (list->named ? n + N_EXTRA : n) | 1;
}

/* Is any address of IPv4? */
static bool
has_ipv4(const ZkLockAddresses *list)
{
	for (int i = 0; i < list->n; i++)
		if (strchr(list->item[i].text, ':') == strrchr(list->item[i].text, ':'))
			return true;
	return false;
}

/*
 * Put the different ones of the addresses from `begin` to `end` in turn, the
 * last tried one behind the others.  Returns the number of turns up to then.
 */
static int
take_turns(const char **turn, int n, int most, const ZkLockAddresses *list,
		   int begin, int end, const char *last)
{
	const char *at_end = NULL;

	for (int i = begin; i < end && n < most; i++)
	{
		const char *address = list->item[i].text;

		if (is_among(list, i, address))
			continue;
		if (last != NULL && strcmp(address, last) == 0)
			at_end = address;
		else
			turn[n++] = address;
	}
	if (at_end != NULL && n < most)
		turn[n++] = at_end;
	return n;
}

char *
zklock_zkhosts_compose(const ZkLockAddresses *list, int positions,
					   unsigned change, const char *last, const char *chroot)
{
	/* The library does not try the first position of a later list first. */
	int			first = change > 0 ? 1 : 0;
	bool		extra = list->named || positions < zklock_zkhosts_positions(list);
	int			most = extra ? positions - N_EXTRA : positions;
	int			fresh = list->fresh > 0 ? list->fresh : list->n;
	const char **turn = malloc(2 * positions * sizeof(char *));
	const char **slot = turn + positions;
	size_t		size = strlen(chroot) + 1;
	char	   *text;
	char	   *end;
	int			n = 0;

	ZKLOCK_ASSERT(list->n > 0 && list->fresh <= list->n);
	ZKLOCK_ASSERT(positions % 2 == 1 && positions > N_EXTRA);
	if (turn == NULL)
		return NULL;
	for (int round = 1; n < most; round++)
	{
		n = take_turns(turn, n, most, list, 0, fresh, last);
		if (round % STALE_ROUNDS == 0)
			n = take_turns(turn, n, most, list, fresh, list->n, last);
	}
	if (extra)
	{
		turn[positions - 2] = unreachable[!has_ipv4(list)][change % 2];
		turn[positions - 1] = last != NULL ? last : turn[0];
	}

	for (int i = 0; i < positions; i++)
	{
		slot[(first + 2 * i) % positions] = turn[i];
		size += strlen(turn[i]) + 1;
	}
	text = end = malloc(size);
	for (int i = 0; text != NULL && i < positions; i++)
		end = stpcpy(stpcpy(end, i > 0 ? "," : ""), slot[i]);
	if (text != NULL)
		strcpy(end, chroot);
	free(turn);
	return text;
}
