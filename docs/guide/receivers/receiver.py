#!/usr/bin/env python3
"""A webhook receiver that checks signatures. Standard library only; Python 3.9 or newer.

    DULY_WEBHOOK_SECRETS=whsec_… python3 receiver.py [PORT [DATABASE]]

`verify` is what to copy. `Receiver` shows what to answer. `close_order` stands for your own work.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 5 * 60  # how far webhook-timestamp may be from this machine's clock
BODY_BYTES_MAX = 1 << 20


class WrongSignature(Exception):
    """The delivery is not from Duly, or was changed, or is too old."""


class NotNow(Exception):
    """It cannot be handled at present; the number is how many seconds to wait."""


class Never(Exception):
    """It can never be handled, however often it is sent."""


def key_of(secret):
    """The bytes of a secret: `whsec_` and base64."""
    if not secret.startswith("whsec_"):
        raise ValueError("a secret begins with whsec_")
    return base64.b64decode(secret[len("whsec_") :], validate=True)


def verify(keys, headers, body, now_s):
    """Returns the delivery id if one of the signatures was made with one of the keys.

    `headers` is anything with `get(name)`, `body` the bytes exactly as they came.
    """
    delivery_id = headers.get("webhook-id")
    timestamp = headers.get("webhook-timestamp")
    signatures = headers.get("webhook-signature")
    if not (delivery_id and timestamp and signatures):
        raise WrongSignature("webhook-id, webhook-timestamp or webhook-signature is missing")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise WrongSignature("webhook-timestamp is not a number of seconds")
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise WrongSignature("webhook-timestamp is too far from this machine's clock")
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    expected = [hmac.new(key, signed, hashlib.sha256).digest() for key in keys]
    for signature in signatures.split():
        version, _, encoded = signature.partition(",")
        if version != "v1":
            continue
        try:
            given = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            continue
        # compare_digest takes as long for a good beginning as for a bad one.
        if any(hmac.compare_digest(given, made) for made in expected):
            return delivery_id
    raise WrongSignature("no signature was made with a secret that is known here")


def close_order(database, body):
    """The work itself. Everything that it changes is part of the caller's transaction."""
    try:
        order = json.loads(body)["order"]
    except (ValueError, TypeError, KeyError):
        order = None
    if type(order) is not int or abs(order) >= 1 << 63:
        raise Never("the payload names no order")
    if os.path.exists("maintenance"):
        raise NotNow(30)
    closed = database.execute(
        "UPDATE orders SET state = 'closed' WHERE id = ? AND state = 'unpaid'", (order,)
    )
    return f"order {order} {'closed' if closed.rowcount else 'left alone'}"


def handle_once(path, delivery_id, body):
    """Does the work and remembers the delivery id, both or neither."""
    database = sqlite3.connect(path, timeout=10, isolation_level=None)
    try:
        # IMMEDIATE: a second attempt of the same delivery waits here until the first is done.
        database.execute("BEGIN IMMEDIATE")
        known = database.execute("SELECT 1 FROM deliveries WHERE id = ?", (delivery_id,))
        if known.fetchone():
            return "known already"
        done = close_order(database, body)
        database.execute(
            "INSERT INTO deliveries (id, at_s) VALUES (?, ?)", (delivery_id, int(time.time()))
        )
        database.execute("COMMIT")
        return done
    finally:
        database.close()  # what was not committed is undone


class Receiver(BaseHTTPRequestHandler):
    """Answers 200, 401, 410, 413, 500 or 503."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    keys = []
    database = "receiver.db"

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413, "the body must have a length of at most 1 MiB")
        body = self.rfile.read(int(length))
        try:
            delivery_id = verify(self.keys, self.headers, body, time.time())
        except WrongSignature as wrong:
            return self.answer(401, str(wrong))
        try:
            done = handle_once(self.database, delivery_id, body)
        except Never as why:
            return self.answer(410, str(why), delivery_id)
        except NotNow as busy:
            return self.answer(503, "come back later", delivery_id, retry_after_s=busy.args[0])
        except Exception as error:  # a fault of ours: Duly sends it again
            return self.answer(500, type(error).__name__, delivery_id)
        self.answer(200, done, delivery_id)

    def answer(self, status, text, delivery_id="-", retry_after_s=None):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        else:
            # Duly closes an idle connection a second before we do.
            self.send_header("keep-alive", f"timeout={self.timeout}")
        if retry_after_s is not None:
            self.send_header("retry-after", str(retry_after_s))
        self.end_headers()
        self.wfile.write(body)
        print(status, delivery_id, text, flush=True)

    def log_message(self, *_):
        pass


def main():
    secrets = os.environ.get("DULY_WEBHOOK_SECRETS", "")
    Receiver.keys = [key_of(secret) for secret in secrets.split(",") if secret]
    if not Receiver.keys:
        sys.exit("set DULY_WEBHOOK_SECRETS to one secret, or to two with a comma between")
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    Receiver.database = sys.argv[2] if len(sys.argv) > 2 else Receiver.database
    database = sqlite3.connect(Receiver.database)
    database.executescript(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL);"
        "CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, at_s INTEGER NOT NULL);"
        "INSERT OR IGNORE INTO orders VALUES (1, 'unpaid'), (2, 'paid');"
    )
    database.close()
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(f"receiving on http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
