# Tests what docs/drivers.md says about psycopg, with the functions of its snippet.
#
#	psycopg_trial.py <connection string>
#
# Prints a line for each thing tried. After "holding" it has a lock, and waits for
# a line to be read.

import sys
import threading
from datetime import timedelta

import psycopg
import psycopg2

from shop import in_transaction, sell

connection = psycopg.connect(sys.argv[1])
tries = 0
deadlocks = 0


def say(name, value):
    print(f"{name}: {value}", flush=True)


def state(action):
    """What an error says, or what is returned"""
    try:
        return action()
    except psycopg.Error as error:
        connection.rollback()
        return f"{error.sqlstate} {type(error).__name__} {connection.closed}"


def value(sql, *parameters):
    return connection.execute(sql, parameters).fetchone()[0]


def has_snapshot(sql):
    """Whether the statement has a snapshot all the time that it waits for the lock"""
    waiter = psycopg.connect(sys.argv[1], autocommit=True)

    def wait():
        try:
            waiter.execute(sql, ("/shop/product_7", timedelta(minutes=1)), prepare=True)
        except psycopg.errors.QueryCanceled:
            pass

    def samples(number):
        while number > 0:
            row = connection.execute(
                "SELECT backend_xmin IS NOT NULL FROM pg_stat_activity"
                " WHERE pid = %s AND wait_event_type = 'Extension'",
                (waiter.info.backend_pid,),
            ).fetchone()
            connection.rollback()
            if row is not None:
                number -= 1
                yield row[0]

    thread = threading.Thread(target=wait)
    thread.start()
    found = all(samples(20))
    waiter.cancel()
    thread.join()
    waiter.close()
    return found


def sell_slowly():
    global tries
    tries += 1
    sell(connection, 42)
    print("holding", flush=True)
    sys.stdin.readline()


def fail_once():
    global deadlocks
    deadlocks += 1
    if deadlocks == 1:
        connection.execute("DO $$ BEGIN RAISE deadlock_detected; END $$")


in_transaction(connection, lambda: sell(connection, 42))
say("locks", value("SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()"))
connection.commit()

in_transaction(connection, sell_slowly)
say("tries", tries)
in_transaction(connection, fail_once)
say("deadlocks", deadlocks)

at_once = timedelta(0)
say("busy", state(lambda: in_transaction(connection, lambda: sell(connection, 7, at_once))))

say("typed", value(
    "SELECT zk_lock_acquire(%s, %s, %s, %s)", "/a", "5s", "exclusive", "transaction"))
say("none", value("SELECT zk_lock_acquire(%s, %s)", "/a", None))
say("list", value("SELECT zk_lock_acquire_all(%s, %s)", ["/a", "/b"], timedelta(minutes=1)))
connection.rollback()
say("seconds", state(lambda: value("SELECT zk_lock_acquire(%s, %s)", "/a", 5)))

say("select", has_snapshot("SELECT zk_lock_guard(%s, %s)"))
say("call", has_snapshot("CALL zk_lock_wait(%s, %s)"))

connection.execute("SET LOCAL statement_timeout = '100ms'")
say("cancelled", state(lambda: sell(connection, 7, timedelta(minutes=1))))

value("SELECT zk_lock_release_all()")
connection.execute("SET zklock.hosts = '127.0.0.1:1'")
connection.commit()
say("away", state(lambda: value("SELECT zk_lock_acquire('/a', '100ms')")))
say("good", value("SELECT 1"))

older = psycopg2.connect(sys.argv[1])
cursor = older.cursor()
cursor.execute("SELECT zk_lock_acquire(%s, %s, %s)", ("/a", timedelta(minutes=1), "shared"))
say("psycopg2", cursor.fetchone()[0])
cursor.execute("SELECT zk_lock_acquire_all(%s, %s)", (["/b", "/c"], "1min"))
say("psycopg2 list", cursor.fetchone()[0])
try:
    cursor.execute("SELECT zk_lock_guard(%s, %s)", ("/shop/product_7", "0"))
except psycopg2.Error as error:
    say("psycopg2 busy", error.pgcode)
