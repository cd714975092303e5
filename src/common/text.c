/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Text from and for other programs: encodings and control characters.
 *	  See text.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "common/text.h"
#include "mb/pg_wchar.h"

static bool
is_ascii(const char *text)
{
	for (; *text != '\0'; text++)
		if (IS_HIGHBIT_SET(*text))
			return false;
	return true;
}

/*
 * Convert text that is valid in encoding `from` to encoding `to`.  Returns palloc'd text, or
 * NULL if a part of it cannot be converted.
 */
static char *
convert_valid(const char *text, int from, int to)
{
	Oid			proc = FindDefaultConversionProc(from, to);
	int			len = (int) strlen(text);
	int			size = len * MAX_CONVERSION_GROWTH + 1;
	char	   *result = (char *) palloc(size);

	return OidIsValid(proc) &&
		pg_do_encoding_conversion_buf(proc, from, to,
									  (unsigned char *) unconstify(char *, text),
									  len, (unsigned char *) result, size,
									  true) == len ? result : NULL;
}

/* Does a control character begin at `c`?  In UTF-8 some have two bytes. */
static bool
is_control(const unsigned char *c, int encoding)
{
	return *c < 0x20 || *c == 0x7f ||
		(encoding == PG_UTF8 && c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0);
}

static char *
convert(const char *text, int from, int to)
{
	char	   *copy = pstrdup(text);
	char	   *converted = NULL;

	/* SQL_ASCII is no encoding: assume that its bytes are in the other one. */
	if (from == PG_SQL_ASCII)
		from = to;
	if (to == PG_SQL_ASCII)
		to = from;

	for (unsigned char *c = (unsigned char *) copy; *c != '\0'; c++)
		if (is_control(c, from))
		{
			if (IS_HIGHBIT_SET(*c))
				*c++ = '?';
			*c = '?';
		}
	if (is_ascii(copy))
		return copy;

	if (pg_verify_mbstr(from, copy, (int) strlen(copy), true))
		converted = from == to ? copy : convert_valid(copy, from, to);
	if (converted != NULL)
		return converted;

	for (char *c = copy; *c != '\0'; c++)
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	return copy;
}

char *
zklock_text_to_utf8(const char *text)
{
	return convert(text, GetDatabaseEncoding(), PG_UTF8);
}

char *
zklock_text_from_utf8(const char *text)
{
	return convert(text, PG_UTF8, GetDatabaseEncoding());
}

char *
zklock_text_session(int64 session)
{
	return psprintf("0x%llx", (unsigned long long) session);
}
