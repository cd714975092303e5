# Tests what docs/pooling.md says about asyncpg's pool, with the class of its snippet.
#
#	asyncpg_trial.py <connection string>
#
# Prints a line for each thing tried. After "holding" it has a lock, and waits for the end of
# its connection.

import asyncio
import sys

import asyncpg

from pool import Connection

ADVISORY = "SELECT pg_try_advisory_lock(42)"
OTHER = "SELECT zk_lock_acquire('/other', '0')"
HELD = "SELECT coalesce(string_agg(path, ' ' ORDER BY path), 'none') FROM zk_locks WHERE pid = pg_backend_pid()"


def say(name, value):
    print(f"{name}: {value}", flush=True)


async def held_after_return(**settings):
    """What the connection has when the pool gives it out again"""
    async with asyncpg.create_pool(sys.argv[1], min_size=1, max_size=1, **settings) as pool:
        async with pool.acquire() as connection:
            assert await connection.fetchval(ADVISORY)
            assert await connection.fetchval(OTHER)
        async with pool.acquire() as connection:
            return await connection.fetchval(HELD)


async def main():
    say("default", await held_after_return())
    say("class", await held_after_return(connection_class=Connection))
    async with asyncpg.create_pool(
        sys.argv[1], min_size=1, max_size=1, connection_class=Connection
    ) as pool:
        connection = await pool.acquire()
        before = connection.get_server_pid()
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        await connection.fetchval("SELECT pg_advisory_lock(43)")
        print("holding", flush=True)
        await asyncio.wait_for(ended.wait(), 60)
        say("told", True)
        async with pool.acquire() as connection:
            say("new", connection.get_server_pid() != before)


asyncio.run(main())
