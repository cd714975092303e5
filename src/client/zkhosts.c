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

/* Number of times that each address is listed, see zkhosts.h.  Must be odd. */
#define ROUNDS 25

/* A name that has one address at first may get as many as an ensemble has. */
#define MIN_NAMED 3

/* The last positions, in turn, of a list that can change */
#define N_EXTRA 2

/* Addresses of no host: a broadcast and a multicast address. */
static const char *const unreachable[2] = {"255.255.255.255:1", "224.0.0.0:1"};

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
	int			found = list->n;

	for (int i = 0; i < former->n; i++)
	{
		bool		known = false;

		for (int j = 0; j < found; j++)
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
	int			count = 0;

	for (int i = 0; i < list->n; i++)
		count += !is_among(list, i, list->item[i].text);
	return count;
}

bool
zklock_zkhosts_equal(const ZkLockAddresses *a, const ZkLockAddresses *b)
{
	for (int i = 0; i < a->n; i++)
		if (!is_among(b, b->n, a->item[i].text))
			return false;
	for (int i = 0; i < b->n; i++)
		if (!is_among(a, a->n, b->item[i].text))
			return false;
	return true;
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
	list->n = 0;
}

/* The library writes "Socket 127.0.0.1:2181 zk", or "Socket [::1]:2181 zk". */
bool
zklock_zkhosts_read(const char *line, char address[ZKLOCK_ADDRESS_SIZE])
{
	const char *start = strstr(line, "Socket ");
	size_t		len = 0;

	if (start == NULL)
		return false;
	for (start += strlen("Socket "); *start != ' ' && *start != '\0'; start++)
	{
		if (*start == '[' || *start == ']')
			continue;
		if (len == ZKLOCK_ADDRESS_SIZE - 1)
			return false;
		address[len++] = *start;
	}
	address[len] = '\0';
	return len > 0;
}

int
zklock_zkhosts_positions(const ZkLockAddresses *list)
{
	int			n = zklock_zkhosts_count(list);

	if (!list->named)
		return n * ROUNDS | 1;
	if (n < list->nhosts)
		n = list->nhosts;
	if (n < MIN_NAMED)
		n = MIN_NAMED;
	return (n * ROUNDS + N_EXTRA) | 1;
}

char *
zklock_zkhosts_compose(const ZkLockAddresses *list, int positions,
					   unsigned change, const char *last, const char *chroot)
{
	/* The library does not try the first position of a later list first. */
	int			first = change > 0 ? 1 : 0;
	int			most = list->named ? positions - N_EXTRA : positions;
	const char **turn = malloc(2 * positions * sizeof(char *));
	const char **slot = turn + positions;
	size_t		size = strlen(chroot) + 1;
	char	   *text;
	char	   *end;
	int			n = 0;
	bool		has_last = false;

	if (turn == NULL)
		return NULL;
	for (int i = 0; i < list->n && n < most; i++)
	{
		const char *address = list->item[i].text;

		if (is_among(list, i, address))
			continue;
		if (last != NULL && strcmp(address, last) == 0)
			has_last = true;
		else
			turn[n++] = address;
	}
	has_last &= n < most;
	if (has_last)
		turn[n++] = last;
	for (int i = n; i < positions; i++)
		turn[i] = turn[i % n];
	if (list->named)
		turn[positions - 2] = unreachable[change % 2];
	if (last != NULL && !has_last)
		turn[positions - 1] = last;

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
