#!/usr/bin/env node
// A webhook receiver that checks signatures. No packages; Node 18 or newer.
//
//     DULY_WEBHOOK_SECRETS=whsec_… node receiver.mjs [PORT [LEDGER]]
//
// `verify` is what to copy. `receive` shows what to answer. `closeOrder` stands for your own work.

import { createHmac, timingSafeEqual } from "node:crypto";
import { existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";
import { createServer } from "node:http";

const TOLERANCE_S = 5 * 60; // how far webhook-timestamp may be from this machine's clock
const BODY_BYTES_MAX = 1 << 20;

/** The delivery is not from Duly, or was changed, or is too old. */
class WrongSignature extends Error {}
/** It can never be handled, however often it is sent. */
class Never extends Error {}
/** It cannot be handled at present. */
class NotNow extends Error {
  constructor(retryAfterS) {
    super("come back later");
    this.retryAfterS = retryAfterS;
  }
}

/** The bytes of a secret: `whsec_` and base64. */
function keyOf(secret) {
  const isSecret = /^whsec_[A-Za-z0-9+/]+={0,2}$/.test(secret);
  if (!isSecret) throw new Error("a secret is whsec_ and base64");
  return Buffer.from(secret.slice("whsec_".length), "base64");
}

/**
 * Returns the delivery id if one of the signatures was made with one of the keys. `body` is the
 * Buffer of the bytes exactly as they came: not parsed, not decoded.
 */
export function verify(keys, headers, body, nowS) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (!id || !timestamp || !signatures) {
    throw new WrongSignature("webhook-id, webhook-timestamp or webhook-signature is missing");
  }
  if (!/^[0-9]{1,12}$/.test(timestamp)) {
    throw new WrongSignature("webhook-timestamp is not a number of seconds");
  }
  if (Math.abs(nowS - Number(timestamp)) > TOLERANCE_S) {
    throw new WrongSignature("webhook-timestamp is too far from this machine's clock");
  }
  const expected = keys.map((key) =>
    createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest(),
  );
  for (const signature of signatures.split(" ")) {
    if (!signature.startsWith("v1,")) continue;
    const given = Buffer.from(signature.slice("v1,".length), "base64");
    // timingSafeEqual takes as long for a good beginning as for a bad one; it wants equal lengths.
    if (expected.some((made) => given.length === made.length && timingSafeEqual(given, made))) {
      return id;
    }
  }
  throw new WrongSignature("no signature was made with a secret that is known here");
}

/**
 * Orders, and the ledger that says what was done for which delivery. A line of the ledger is the
 * change and the memory of it in one, so there is never one without the other; in a service both
 * belong into one transaction of its database.
 */
class Shop {
  constructor(path) {
    this.orders = new Map([[1, "unpaid"], [2, "paid"]]);
    this.known = new Set();
    this.file = openSync(path, "a");
    const text = readFileSync(path, "latin1");
    // A last line without its end was being written when the process died: it does not count.
    const end = text.lastIndexOf("\n") + 1;
    truncateSync(path, end);
    const lines = text.slice(0, end).split("\n").slice(0, -1);
    for (const line of lines) this.apply(...line.split(" "));
  }

  apply(id, order, state) {
    this.known.add(id);
    this.orders.set(Number(order), state);
  }

  /** Does the work, once for each delivery id. Nothing here waits, so no two calls overlap. */
  handleOnce(id, body) {
    if (this.known.has(id)) return "known already";
    const { order, state, text } = this.closeOrder(body);
    writeSync(this.file, `${id} ${order} ${state}\n`);
    fsyncSync(this.file);
    this.apply(id, order, state);
    return text;
  }

  /** The work itself: what is to change, and what to say. */
  closeOrder(body) {
    let order;
    try {
      order = JSON.parse(body.toString("utf8")).order;
    } catch {
      order = undefined;
    }
    if (!Number.isSafeInteger(order)) throw new Never("the payload names no order");
    if (existsSync("maintenance")) throw new NotNow(30);
    const before = this.orders.get(order) ?? "unknown";
    if (before !== "unpaid") return { order, state: before, text: `order ${order} left alone` };
    return { order, state: "closed", text: `order ${order} closed` };
  }
}

/** The body as it came, or null where it has no length or too much of it. */
async function bodyOf(request) {
  const length = request.headers["content-length"];
  if (length === undefined || Number(length) > BODY_BYTES_MAX) return null;
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

function answer(response, status, text, id = "-", headers = {}) {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...headers });
  response.end(text);
  console.log(status, id, text);
}

async function receive(keys, shop, request, response) {
  const body = await bodyOf(request);
  if (body === null) {
    const text = "the body must have a length of at most 1 MiB";
    return answer(response, 413, text, "-", { connection: "close" });
  }
  let id;
  try {
    id = verify(keys, request.headers, body, Math.floor(Date.now() / 1000));
    answer(response, 200, shop.handleOnce(id, body), id);
  } catch (error) {
    if (error instanceof WrongSignature) answer(response, 401, error.message);
    else if (error instanceof Never) answer(response, 410, error.message, id);
    else if (error instanceof NotNow) {
      answer(response, 503, error.message, id, { "retry-after": error.retryAfterS });
    } else answer(response, 500, error.name, id); // a fault of ours: Duly sends it again
  }
}

const [port = "4000", ledger = "receiver.ledger"] = process.argv.slice(2);
const keys = (process.env.DULY_WEBHOOK_SECRETS ?? "").split(",").filter(Boolean).map(keyOf);
if (keys.length === 0) {
  console.error("set DULY_WEBHOOK_SECRETS to one secret, or to two with a comma between");
  process.exit(1);
}
const shop = new Shop(ledger);
const server = createServer((request, response) => {
  receive(keys, shop, request, response).catch(() => response.destroy());
});
// Told to Duly in `Keep-Alive`: it closes an idle connection a second before we do.
server.keepAliveTimeout = 60_000;
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`receiving on http://127.0.0.1:${server.address().port}/`);
});
