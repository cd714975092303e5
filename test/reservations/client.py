# A client of the reservation of docs/longer-locks.md, behind poolers.
#
#	client.py <kind> <seed> <job> <ttl in ms> <connection string> ...
#
# Each connection string leads to a server, the first of which has the table. The client
# chooses one of them for each transaction. Kinds:
#
#	worker			polls, works for a while in its turn, and forgets much
#	administrator	gives the turn to itself by hand, and works
#	job				works all the time, and prints the number of its transactions each second
#	looker			polls as a worker, and never gets its turn
#	caller			the same without a look at the row
#
# It runs until it is ended, and prints a line with the SQLSTATE of each error.

import random
import sys
import time
import uuid

import psycopg2

kind, seed, job, ttl = sys.argv[1:5]
servers = sys.argv[5:]
dice = random.Random(seed)
ttl = f"{ttl} ms"
connections = {}


class Over(Exception):
    """The reservation is over"""


def connection(server):
    if server not in connections:
        connections[server] = psycopg2.connect(servers[server], connect_timeout=5)
        connections[server].autocommit = True
    return connections[server]


def run(server, *statements):
    """Runs statements, and returns the first value of the last; the results of others are not
    read. On an error the connection is given up."""
    try:
        with connection(server).cursor() as cursor:
            for sql, *parameters in statements:
                cursor.execute(sql, parameters)
            return cursor.fetchone()[0] if cursor.description else None
    except psycopg2.Error as error:
        print(error.pgcode or "none", flush=True)
        broken = connections.pop(server, None)
        if broken:
            broken.close()
        if error.pgcode == "55000":
            raise Over from error
        raise


def anywhere(*statements):
    return run(dice.randrange(len(servers)), *statements)


def reserve(look=True):
    free = not look or anywhere(
        ("SELECT until < clock_timestamp() FROM reservation WHERE path = %s", job))
    return free and anywhere(("SELECT reserve(%s, %s)", job, ttl))


def extend(holder):
    if not anywhere(("SELECT extend(%s, %s, %s)", job, holder, ttl)):
        raise Over


def take_by_hand():
    holder = str(uuid.uuid4())
    run(0, ("BEGIN",), ("SET LOCAL application_name = 'administrator'",),
        ("SELECT zk_lock_guard(%s, '10s', 'write')", job),
        ("UPDATE reservation SET holder = %s, until = clock_timestamp() + %s WHERE path = %s",
         holder, ttl, job),
        ("COMMIT",))
    return holder


def work(holder, before=0.0, during=0.0, extends=False):
    """One entered transaction. Before it enters, it may read from the first server."""
    server = dice.randrange(len(servers))
    statements = [("BEGIN",)]
    if before:
        statements += [("SELECT FROM elsewhere",), ("SELECT pg_sleep(%s)", before)]
    statements += [
        ("SELECT enter(%s, %s)", job, holder),
        ("INSERT INTO work (holder, seen)"
         " SELECT %s, count(*) FROM work WHERE holder <> %s", holder, holder),
        ("SELECT pg_sleep(%s)", during)]
    run(server, *statements)
    if extends:
        try:
            anywhere(("SELECT extend(%s, %s, %s)", job, holder, ttl))
        except psycopg2.Error:
            pass
    run(server, ("COMMIT",))


def turn(holder):
    for _ in range(dice.randint(1, 20)):
        if dice.random() < 0.7:
            extend(holder)
        for _ in range(5):
            try:
                work(holder,
                     before=dice.random() * 2 if dice.random() < 0.25 else 0,
                     during=dice.random() * (2 if dice.random() < 0.15 else 0.05),
                     extends=dice.random() < 0.3)
                break
            except psycopg2.Error as error:
                if error.pgcode != "40001":
                    time.sleep(0.1)
    if dice.random() < 0.5:
        anywhere(("SELECT release(%s, %s)", job, holder))


def live_as_worker():
    last = None
    while True:
        try:
            holder = take_by_hand() if kind == "administrator" else reserve()
            if holder:
                last = holder
                turn(holder)
            elif last and dice.random() < 0.1:
                # Its turn is over, but it does not know.
                work(last)
        except (psycopg2.Error, Over):
            pass
        time.sleep(0.1 if kind == "worker" else dice.random() * 4)


def live_as_job():
    holder, count, since = None, 0, time.monotonic()
    while True:
        now = time.monotonic()
        if holder is None or now - since >= 1:
            if holder:
                print("transactions", count, flush=True)
                extend(holder)
            else:
                holder = reserve()
            count, since = 0, now
        if holder:
            work(holder)
            count += 1
        else:
            time.sleep(0.1)


if kind in ("worker", "administrator"):
    live_as_worker()
elif kind == "job":
    live_as_job()
while True:
    try:
        reserve(look=kind == "looker")
    except psycopg2.Error:
        pass
    time.sleep(0.1)
