# kazoo's locks, controlled by the orders in Program.pm.
#
#	kazoo_bench.py <ZooKeeper's hosts>
#
# Each client is a process, because only one thread of a Python process
# computes at a time; the clients of "queue" are threads.

import multiprocessing
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock

hosts = sys.argv[1]
clients = []  # a process and a connection to it, each


def connect():
    client = KazooClient(hosts=hosts, timeout=60)
    client.start(timeout=60)
    return client


class ReadMostly:
    """One in twenty writes."""

    def __init__(self, client, path):
        self.sides = [WriteLock(client, path)] + [ReadLock(client, path)] * 19

    def acquire(self):
        self.side = random.choice(self.sides)
        self.side.acquire()

    def release(self):
        self.side.release()


class Try:
    """Nobody has the lock, or another client, with a node of Curator's kind."""

    def __init__(self, client, path, free, pause):
        self.lock = Lock(client, path, extra_lock_patterns=["lock-"])
        self.free = free
        self.pause = pause

    def acquire(self):
        if self.lock.acquire(blocking=False) != self.free:
            raise RuntimeError("error: free is not %s" % self.free)

    def release(self):
        if self.free:
            self.lock.release()
        time.sleep(self.pause)


kinds = {
    "mutex": Lock,
    "read-mostly": ReadMostly,
    "semaphore": lambda client, path: Semaphore(client, path, max_leases=4),
    "free-tries": lambda client, path: Try(client, path, True, 0),
    "tries": lambda client, path: Try(client, path, False, 0),
    "polls": lambda client, path: Try(client, path, False, 0.02),
}


def take_turns(client, kind, seconds, path, paths):
    """The number of turns, their time, and that of the acquires, in seconds."""
    make = kinds[kind]
    lock = make(client, path)
    ops = 0
    acquiring = 0
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        if asked >= began + seconds:
            return ops, asked - began, acquiring
        if paths > 1:
            lock = make(client, "%s/%d" % (path, random.randrange(paths)))
        lock.acquire()
        acquiring += time.monotonic() - asked
        lock.release()
        ops += 1


def serve(orders, not_ours):
    for end in not_ours:
        end.close()
    client = connect()
    orders.send("ready")
    while True:
        order = orders.recv()
        if order is None:
            client.stop()
            return
        orders.send(take_turns(client, *order))


def open_clients(n):
    while len(clients) < n:
        here, there = multiprocessing.Pipe()
        inherited = [here] + [orders for _, orders in clients]
        process = multiprocessing.Process(
            target=serve, args=(there, inherited), daemon=True
        )
        process.start()
        there.close()
        here.recv()
        clients.append((process, here))
    return "open"


def run(kind, n, seconds, path, paths):
    open_clients(int(n))
    used = [orders for _, orders in clients[: int(n)]]
    for orders in used:
        orders.send((kind, float(seconds), path, int(paths)))
    seen = [orders.recv() for orders in used]
    rate = sum(ops / elapsed for ops, elapsed, _ in seen)
    ops = sum(ops for ops, _, _ in seen)
    return "%.3f %.3f" % (rate, sum(us for _, _, us in seen) / ops * 1e6)


def first(n, path):
    """The first lock of a client that is not connected yet"""
    total = 0
    for _ in range(int(n)):
        began = time.monotonic()
        client = connect()
        lock = Lock(client, path)
        lock.acquire()
        total += time.monotonic() - began
        lock.release()
        client.stop()
        client.close()
    return "%.3f" % (total / int(n) * 1e6)


def queue(n, path):
    """Clients queue up, each for one turn."""
    client = connect()

    def take_one():
        with Lock(client, path, extra_lock_patterns=["lock-"]):
            pass

    threads = [threading.Thread(target=take_one) for _ in range(int(n))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.stop()
    client.close()
    return "done"


def main():
    verbs = {
        "run": run,
        "first": first,
        "open": lambda n: open_clients(int(n)),
        "queue": queue,
    }
    threading.stack_size(256 * 1024)
    for line in sys.stdin:
        verb, *words = line.split()
        print(verbs[verb](*words), flush=True)
    for process, orders in clients:
        orders.send(None)
        process.join()


main()
