# Works under an advisory lock with a connection of asyncpg's pool, and keeps the pool until the
# end of its input. Only the pool releases the lock, when it gets the connection back.

import asyncio
import sys

import asyncpg


async def main():
    async with asyncpg.create_pool(min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            await connection.execute("SELECT pg_advisory_lock(42)")
            await connection.execute("SELECT work()")
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
