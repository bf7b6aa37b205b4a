#!/usr/bin/env python3
"""A pull worker. Standard library only; Python 3.9 or newer.

    python3 worker.py NAMESPACE [SERVER [DATABASE]]

It leases firings in batches, handles each once, and says what became of it. Ctrl-C or SIGTERM
lets it finish what it has begun. `close_order` stands for your own work.
"""

import http.client
import json
import signal
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.request

BATCH = 10
WAIT_S = 20  # how long the server holds a lease call open when nothing is due
LEASE_S = 30  # how long a firing is ours; a heartbeat makes it longer while we work

stopping = threading.Event()
waiting = threading.Event()


class Stopped(BaseException):
    """A signal came while nothing was in our hands."""


def stop(*_):
    """The handler of signals. A lease call that is cut off here hands nothing out."""
    stopping.set()
    if waiting.is_set():
        raise Stopped


class NotNow(Exception):
    """It cannot be handled at present."""


class Never(Exception):
    """It can never be handled, however often it is tried."""


def say(what):
    """For the operator of the worker; standard output is for the results of firings."""
    print(what, file=sys.stderr, flush=True)


def problem_of(error):
    """What the server says of a refusal; of something that stands between us, nothing."""
    try:
        return json.load(error)
    except ValueError:
        return {}


class Server:
    """The two calls of a worker."""

    def __init__(self, url, namespace):
        self.base = f"{url}/v1/namespaces/{namespace}"

    def lease(self):
        """The next firings; none when nothing became due in time."""
        body = {"max": BATCH, "wait": f"{WAIT_S}s", "lease": f"{LEASE_S}s"}
        answer = self.call("lease", body)
        if answer.get("paused"):  # answered at once, so wait here
            stopping.wait(5)
        return answer["firings"]

    def settle(self, settlements):
        """What became of each. The same settlements may be sent again: that changes nothing."""
        results = self.call("settle", {"settlements": settlements})["results"]
        return [result.get("outcome", "refused") for result in results]

    def call(self, what, body):
        """Repeats a call until it is answered: all that may be repeated here may be."""
        request = urllib.request.Request(
            f"{self.base}/{what}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        is_first = True
        while True:
            try:
                with urllib.request.urlopen(request, timeout=WAIT_S + 10) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                problem = problem_of(error)
                why = problem.get("detail", error)
                # 404: the namespace comes into being with its first timer.
                if 400 <= error.code < 500 and error.code not in (404, 429):
                    sys.exit(f"{what}: {why}")
                pause_s = problem.get("retry_after_ms", 1000) / 1000
            except (OSError, ValueError, http.client.HTTPException) as error:
                why, pause_s = error, 1  # no server, a broken connection, half an answer
            if is_first:  # of many in a row one is enough
                say(f"{what} at {self.base}: {why}; trying again")
                is_first = False
            if stopping.wait(pause_s):
                sys.exit(f"{what}: stopped before there was an answer")


class Heartbeat(threading.Thread):
    """Extends the leases of what is not yet settled, long before they end."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.lock, self.tokens = server, threading.Lock(), set()

    def run(self):
        while True:
            time.sleep(LEASE_S / 3)
            with self.lock:
                tokens = list(self.tokens)
            extend = {"lease": f"{LEASE_S}s"}
            if tokens:
                self.server.settle([{"token": token, "extend": extend} for token in tokens])

    def watch(self, tokens):
        with self.lock:
            self.tokens = set(tokens)


def close_order(database, firing):
    """The work itself. Everything that it changes is part of the caller's transaction."""
    try:
        order = firing["payload"]["order"]
    except (KeyError, TypeError):
        order = None
    if type(order) is not int:
        raise Never("the payload names no order")
    closed = database.execute(
        "UPDATE orders SET state = 'closed' WHERE id = ? AND state = 'unpaid'", (order,)
    )
    return f"order {order} {'closed' if closed.rowcount else 'left alone'}"


def handle_once(database, firing):
    """Does the work and remembers the delivery id, both or neither."""
    database.execute("BEGIN IMMEDIATE")
    try:
        key = (firing["delivery_id"],)
        if database.execute("SELECT 1 FROM deliveries WHERE id = ?", key).fetchone():
            done = "known already"
        else:
            done = close_order(database, firing)
            database.execute("INSERT INTO deliveries (id) VALUES (?)", key)
        database.execute("COMMIT")
        return done
    except BaseException:
        database.execute("ROLLBACK")
        raise


def verdict_on(database, firing):
    """Handles a firing: what to tell the server, and what to print."""
    if stopping.is_set():
        return {"snooze": {"after": "0s"}}, "handed back"  # uses up no attempt
    try:
        return {"ack": {}}, handle_once(database, firing)
    except Never as why:
        return {"dead": {"reason": str(why)}}, f"given up: {why}"
    except NotNow as why:
        return {"retry": {"after": "30s", "reason": str(why)}}, f"later: {why}"
    except Exception as error:  # a fault of ours: again, as the retry policy says
        return {"retry": {"reason": repr(error)}}, f"failed: {error!r}"


def main():
    namespace = sys.argv[1]
    url = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:3859"
    path = sys.argv[3] if len(sys.argv) > 3 else "worker.db"
    database = sqlite3.connect(path, timeout=10, isolation_level=None)
    database.executescript(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL);"
        "CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY);"
        "INSERT OR IGNORE INTO orders VALUES (1, 'unpaid'), (2, 'paid'), (3, 'unpaid');"
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    server = Server(url, namespace)
    heartbeat = Heartbeat(server)
    heartbeat.start()
    print(f"working on {namespace} of {url}", flush=True)
    while not stopping.is_set():
        try:
            waiting.set()
            firings = server.lease()
            waiting.clear()
        except Stopped:
            break
        heartbeat.watch(firing["token"] for firing in firings)
        settlements = []
        for firing in firings:
            verdict, done = verdict_on(database, firing)
            settlements.append({"token": firing["token"], **verdict})
            print(f"{firing['id']}  attempt {firing['attempt']}  {done}", flush=True)
        if settlements:
            for firing, outcome in zip(firings, server.settle(settlements)):
                if outcome == "lease_lost":  # another worker has it now, with the same delivery id
                    print(f"{firing['id']}  lease lost", flush=True)
        heartbeat.watch([])


if __name__ == "__main__":
    main()
