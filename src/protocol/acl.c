/*-------------------------------------------------------------------------
 *
 * acl.c
 *	  Access control lists for ZooKeeper.  See acl.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/acl.h"

#include <string.h>

const char *
zklock_acl_check(const char *acl)
{
	int			n = 0;

	for (const char *entry = acl;; entry++)
	{
		size_t		len = strcspn(entry, ",");
		const char *scheme_end = memchr(entry, ':', len);
		const char *perms = NULL;

		for (size_t i = 0; i < len; i++)
			if (entry[i] == ':')
				perms = entry + i + 1;
		if (scheme_end == NULL || scheme_end == entry || scheme_end + 1 == perms)
			return "Each entry must be given as scheme:id:permissions.";
		if (perms == entry + len ||
			perms + strspn(perms, "cdrwa") < entry + len)
			return "Permissions are letters of \"cdrwa\".";
		if (++n > ZKLOCK_ACL_MAX)
			return "There are more than 16 entries.";
		entry += len;
		if (*entry == '\0')
			return NULL;
	}
}
