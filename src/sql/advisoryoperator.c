/*-------------------------------------------------------------------------
 *
 * advisoryoperator.c
 *	  Operators for which PostgreSQL may take one of its own advisory locks.
 *	  See advisoryoperator.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_operator.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "sql/advisory.h"
#include "sql/advisoryoperator.h"
#include "utils/syscache.h"

/*
 * No operator of PostgreSQL's own that selects rows can be linked to such an operator:
 * those with the same types of arguments have their negator and commutator already.
 */
Oid
zklock_advisoryoperator_function(Oid operator)
{
	Oid			function = InvalidOid;
	List	   *linked;

	if (operator < FirstNormalObjectId)
		return InvalidOid;
	linked = list_make1_oid(operator);
	for (int i = 0; i < list_length(linked) && !OidIsValid(function); i++)
	{
		HeapTuple	tuple = SearchSysCache1(OPEROID,
											ObjectIdGetDatum(list_nth_oid(linked, i)));

		CHECK_FOR_INTERRUPTS();
		if (HeapTupleIsValid(tuple))
		{
			Form_pg_operator form = (Form_pg_operator) GETSTRUCT(tuple);

			if (zklock_advisory_is_replaced(form->oprcode))
				function = form->oprcode;
			linked = list_append_unique_oid(linked, form->oprcom);
			linked = list_append_unique_oid(linked, form->oprnegate);
			ReleaseSysCache(tuple);
		}
	}
	list_free(linked);
	return function;
}
