/*-------------------------------------------------------------------------
 *
 * fuzz_settings.c
 *	  Fuzzes the checks of connect strings and access control lists.
 *
 * A valid connect string must also be valid after its names have been replaced
 * by addresses; the number of addresses of a name varies.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/zkclient.h"
#include "client/zkresolver.h"
#include "protocol/acl.h"
#include "protocol/hosts.h"
#include "protocol/path.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SERVER " *(\\[[^][ ,;/]+\\]|[^][ ,;/]+):[0-9]{1,5} *"
#define HOSTS "^" SERVER "(," SERVER ")*(, *)?(/[^,]*)?$"

#define ENTRY "[^:,]+:[^,]*:[cdrwa]+"
#define ACL "^" ENTRY "(," ENTRY "){0,15}$"

/*
 * The resolver of all names: the first byte of a name determines the number of
 * its addresses.
 */
int
getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
			struct addrinfo **found)
{
	static struct sockaddr_in v4 = {.sin_family = AF_INET};
	static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	static struct addrinfo all[] = {
		{.ai_addr = (void *) &v4,.ai_addrlen = sizeof(v4)},
		{.ai_addr = (void *) &v6,.ai_addrlen = sizeof(v6),.ai_next = &all[0]},
		{.ai_addr = (void *) &v4,.ai_addrlen = sizeof(v4),.ai_next = &all[1]}
	};
	int			n = (unsigned char) name[0] % 4;

	(void) port;
	(void) hints;
	if (n == 0)
		return EAI_NONAME;
	*found = &all[n - 1];
	return 0;
}

void
freeaddrinfo(struct addrinfo *found)
{
	(void) found;
}

static bool
matches(regex_t *compiled, const char *pattern, const char *text)
{
	if (compiled->re_nsub == 0)
		assert(regcomp(compiled, pattern, REG_EXTENDED) == 0);
	return regexec(compiled, text, 0, NULL, 0) == 0;
}

/* The limits of names and ports, which the regular expression does not have */
static bool
within_limits(const char *hosts)
{
	size_t		n = strcspn(hosts, "/");

	for (size_t i = 0, begin = 0; i <= n; i++)
	{
		const char *colon;

		if (i < n && hosts[i] != ',')
			continue;
		begin += strspn(hosts + begin, " ");
		colon = memrchr(hosts + begin, ':', i - begin);
		if (colon != NULL)
		{
			long		port = strtol(colon + 1, NULL, 10);
			size_t		len = colon - hosts - begin;

			if (hosts[begin] == '[')
				len -= 2;
			if (len > 255 || port < 1 || port > 65535)
				return false;
		}
		begin = i + 1;
	}
	return true;
}

static bool
is_hosts(const char *text)
{
	static regex_t compiled;
	const char *chroot = strchr(text, '/');

	return matches(&compiled, HOSTS, text) && within_limits(text) &&
		(chroot == NULL || chroot[1] == '\0' ||
		 zklock_path_check(chroot, strlen(chroot)) == NULL);
}

/* A connect string has an odd number of valid positions, each address, and the chroot. */
static void
check_composed(const ZkLockAddresses *list, int positions, unsigned change,
			   const char *last, const char *chroot)
{
	char	   *text = zklock_zkhosts_compose(list, positions, change, last, chroot);
	const char *end = strchrnul(text, '/');
	int			n = 1;

	assert(zklock_hosts_check(text) == NULL);
	assert(strcmp(end, chroot) == 0);
	for (const char *c = text; c < end; c++)
		n += *c == ',';
	assert(n == positions && n % 2 == 1);
	for (int i = 0; i < list->n; i++)
		assert(strstr(text, list->item[i].text) != NULL);
	if (last != NULL)
		assert(strstr(text, last) != NULL);
	free(text);
}

static void
check_resolved(const char *hosts)
{
	ZkLockAddresses list = {0};
	const char *chroot = strchr(hosts, '/');
	bool		ok = zklock_zkresolver_resolve(hosts, false, &list);

	assert(ok && list.nhosts > 0);
	if (list.n > 0)
	{
		int			positions = zklock_zkhosts_positions(&list);

		assert(zklock_zkhosts_count(&list) <= positions);
		check_composed(&list, positions, 0, NULL,
					   chroot != NULL && chroot[1] != '\0' ? chroot : "");
		if (list.named)
			check_composed(&list, positions, 1, "::1:9", "");
	}
	zklock_zkhosts_free(&list);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static regex_t acl;
	char	   *text = strndup((const char *) data, size);
	bool		good = zklock_hosts_check(text) == NULL;

	assert(good == is_hosts(text));
	if (good)
		check_resolved(text);
	assert((zklock_acl_check(text) == NULL) ==
		   matches(&acl, ACL, text));
	free(text);
	return 0;
}
