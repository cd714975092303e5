# kazoo's locks, controlled by the orders in Peer.pm.
#
#	kazoo_peer.py <ZooKeeper's hosts> <connection string>

import queue
import subprocess
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

client = KazooClient(hosts=sys.argv[1])
conninfo = sys.argv[2]


class DashedLock(Lock):
    """A lock whose nodes are named as Curator's."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class ElectionLock:
    """Leadership, with the look of a lock."""

    def __init__(self, client, path, identifier, extra_lock_patterns):
        self.election = Election(client, path, identifier)
        self.election.lock = Lock(
            client, path, identifier, extra_lock_patterns=extra_lock_patterns
        )

    def acquire(self, timeout=None):
        self.leads = threading.Event()
        self.ends = threading.Event()
        self.thread = threading.Thread(
            target=self.election.run, args=(self.lead,), daemon=True
        )
        self.thread.start()
        if self.leads.wait(timeout):
            return True
        self.election.cancel()
        self.thread.join()
        return False

    def lead(self):
        self.leads.set()
        self.ends.wait()

    def release(self):
        self.ends.set()
        self.thread.join()
        return True


# What to be called with to see Curator's nodes
kinds = {
    "lock": (Lock, ["lock-"]),
    "dashed-lock": (DashedLock, []),
    "election": (ElectionLock, ["lock-"]),
    "read": (ReadLock, ["__WRIT__"]),
    "write": (WriteLock, ["__WRIT__", "__READ__"]),
}


class Database(subprocess.Popen):
    """A database session; closed at the end of a with statement."""

    def __init__(self):
        super().__init__(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", conninfo],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )

    def ask(self, sql):
        self.stdin.write(sql + ";\n")
        self.stdin.flush()
        answer = self.stdout.readline()
        if not answer:
            raise EOFError("psql failed")
        return answer.rstrip("\n")


class Actor(threading.Thread):
    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.orders = queue.Queue()
        self.locks = {}
        self.start()

    def run(self):
        while True:
            number, verb, kind, path, *args = self.orders.get()
            try:
                answer = getattr(self, verb)(self.lock(kind, path), *args)
            except Exception as e:
                answer = "error: %r" % e
            sys.stdout.write("%s %s\n" % (number, answer))
            sys.stdout.flush()

    def lock(self, kind, path):
        if (kind, path) not in self.locks:
            make, patterns = kinds[kind]
            self.locks[kind, path] = make(
                client, path, self.name, extra_lock_patterns=patterns
            )
        return self.locks[kind, path]

    def acquire(self, lock, timeout=None):
        try:
            if timeout == "0":
                held = lock.acquire(blocking=False)
            elif timeout:
                held = lock.acquire(timeout=int(timeout) / 1000)
            else:
                held = lock.acquire()
        except LockTimeout:
            held = False
        return "t" if held else "f"

    def release(self, lock):
        return "t" if lock.release() else "f"

    def contend(self, lock, rounds, work):
        with Database() as database:
            for _ in range(int(rounds)):
                with lock:
                    seen = database.ask("SELECT %s()" % work)
                    database.ask("SELECT %s(%s)" % (work, seen))
        return "t"

    def contenders(self, lock):
        return "; ".join(lock.contenders())


client.start()
actors = {}
for line in sys.stdin:
    number, name, *order = line.split()
    if name not in actors:
        actors[name] = Actor(name)
    actors[name].orders.put([number] + order)
client.stop()
