// Calls every operation once through the client that @hey-api/openapi-ts made.
//
//     node calls.js DOCUMENT SERVER KEY BACKUP
//
// The compiler checks every body and parameter here against the generated types.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { client } from './client/client.gen.js';
import * as sdk from './client/sdk.gen.js';

const [document, server, key, backup] = process.argv.slice(2) as [string, string, string, string];
client.setConfig({ baseUrl: server as 'http://127.0.0.1:3859', auth: key });

const called = new Set<string>();
const api = new Proxy(sdk, {
  get(all, name: string) {
    called.add(name);
    return all[name as keyof typeof sdk];
  },
});

/** Returns the body of a response that has this status. */
async function ok<T, E>(
  status: number,
  result: Promise<{ data?: T; error?: E; response: Response }>,
): Promise<NonNullable<T>> {
  const { data, error, response } = await result;
  assert.equal(response.status, status, JSON.stringify(error));
  return (data ?? {}) as NonNullable<T>;
}

/** Returns the problem of a response that has this status. */
async function refused<T, E>(
  status: number,
  result: Promise<{ data?: T; error?: E; response: Response }>,
): Promise<NonNullable<E>> {
  const { error, response } = await result;
  assert.equal(response.status, status);
  assert.ok(error);
  return error as NonNullable<E>;
}

const namespace = 'typescript';
const path = { namespace };
await ok(201, api.putNamespace({ path, body: { retry: { delays: ['1h'] }, lease: '20s' } }));
const first = { id: 'a/1', delay: '1h', payload: { n: 1 } };
const timer = await ok(201, api.scheduleTimer({ path, body: first }));
assert.equal(timer.state, 'scheduled');
assert.deepEqual(timer.payload, { n: 1 });
const one = { namespace, id: 'a/1' };
assert.equal((await ok(200, api.getTimer({ path: one }))).id, 'a/1');
const change = { delay: '2h', tags: ['t'] };
assert.equal((await ok(200, api.rescheduleTimer({ path: one, body: change }))).revision, 2);
const operations = [0, 1, 2].map((i) => ({ schedule: { id: `b${i}`, delay: '1h', tags: ['t'] } }));
const batch = { operations: [...operations, { cancel: { id: 'none' } }] };
const { results } = await ok(200, api.batch({ path, body: batch }));
assert.equal(results.filter((result) => result.timer).length, 3);
assert.equal(results[3]?.error?.code, 'not_found');
const page = await ok(200, api.listTimers({ path, query: { tag: 't', limit: 3 } }));
assert.equal(page.timers.length, 3);
assert.ok(page.cursor);
const rest = await ok(200, api.listTimers({ path, query: { tag: 't', cursor: page.cursor } }));
assert.equal(rest.timers.length, 1);
const b0 = { namespace, id: 'b0' };
const cancelled = await ok(200, api.cancelTimer({ path: b0, query: { if_revision: 1 } }));
assert.equal(cancelled.outcome, 'cancelled');
const filter = { filter: { id_prefix: 'b' } };
assert.equal((await ok(200, api.cancelByFilter({ path, body: filter }))).cancelled, 2);
assert.equal((await ok(200, api.fireTimer({ path: one }))).state, 'due');
const { firings } = await ok(200, api.lease({ path, body: { max: 10, wait: '20s' } }));
assert.deepEqual(firings.map((firing) => firing.payload), [{ n: 1 }]);
const settlements = [{ token: firings[0]!.token, dead: { reason: 'never' } }];
const settled = await ok(200, api.settle({ path, body: { settlements } }));
assert.deepEqual(settled.results, [{ outcome: 'ok' }]);
assert.equal((await ok(200, api.redrive({ path, body: { ids: ['a/1'], delay: '1h' } }))).redriven, 1);
await ok(201, api.scheduleTimer({ path, body: { id: 'late', due_at: '2026-01-01T00:00:00Z' } }));
const past = { due_by: '2026-01-02T00:00:00Z' };
assert.equal((await ok(200, api.deadLetterOverdue({ path, body: past }))).dead_lettered, 1);
assert.equal((await ok(200, api.purge({ path, body: { all: true } }))).purged, 1);
assert.equal((await ok(200, api.forgetTimer({ path: { namespace, id: 'late' } }))).dead_letters, 0);
const exported = await ok(200, api.exportTimers({ path, query: { limit: 10 } }));
assert.equal(exported.namespace?.name, namespace);
const imported = await ok(200, api.importTimers({ path, body: { timers: exported.timers } }));
assert.deepEqual(imported.results, [{ existing: true, state: 'retrying' }]);
const { namespaces } = await ok(200, api.listNamespaces({ query: { limit: 10 } }));
assert.ok(namespaces.some((found) => found.name === namespace));
assert.equal((await ok(200, api.getNamespace({ path }))).lease, '20s');
assert.equal((await ok(200, api.patchNamespace({ path, body: { weight: 2 } }))).weight, 2);
assert.equal((await ok(200, api.pauseNamespace({ path }))).paused, true);
assert.equal((await ok(200, api.resumeNamespace({ path, body: {} }))).paused, false);
assert.equal((await ok(200, api.namespaceStats({ path }))).retrying, 1);
const query = { bucket: '1h', count: 3 };
assert.equal((await ok(200, api.namespaceForecast({ path, query }))).buckets.length, 3);
assert.equal((await ok(200, api.repairNamespace({ path }))).restored, false);
const repair = await refused(403, api.repair({ body: { shards: [0] } }));
assert.equal(repair.code, 'permission_denied');
assert.ok((await ok(200, api.backup({ body: { path: `${backup}/typescript` } }))).files > 0);
assert.equal((await ok(200, api.whoami())).key?.name, 'tools');
const wanted = { name: 'shop', actions: ['producer'], namespaces: ['t*'], expires_in: '90d' };
const made = await ok(201, api.createKey({ body: wanted }));
const made_path = { id: made.key.id };
assert.ok(made.secret?.startsWith(`duly_${made.key.id}_`));
assert.deepEqual((await ok(200, api.getKey({ path: made_path }))).actions, ['schedule', 'read']);
const disabled = await ok(200, api.patchKey({ path: made_path, body: { disabled: true } }));
assert.equal(disabled.disabled, true);
const rotated = await ok(200, api.rotateKey({ path: made_path, body: { keep_old: '1h' } }));
assert.ok(rotated.key.old_secret_until);
const { keys } = await ok(200, api.listKeys({ query: { limit: 10 } }));
assert.ok(keys.some((found) => found.id === made.key.id));
await ok(204, api.deleteKey({ path: made_path }));
const tenant_path = { tenant: 'acme-t' };
const tenant = { namespaces: ['acme-t-*'], limits: { max_pending: 1000 } };
const put = await ok(201, api.putTenant({ path: tenant_path, body: tenant }));
assert.equal(put.limits.max_pending, 1000);
assert.equal((await ok(200, api.getTenant({ path: tenant_path }))).usage.pending, 0);
const { tenants } = await ok(200, api.listTenants({ query: { limit: 10 } }));
assert.ok(tenants.some((found) => found.name === 'acme-t'));
await ok(204, api.deleteTenant({ path: tenant_path }));
assert.ok(Array.isArray((await ok(200, api.listAudit({ query: { limit: 10 } }))).records));
assert.equal((await ok(200, api.cluster())).ready, true);
assert.equal((await ok(200, api.healthz())).status, 'alive');
assert.equal((await ok(200, api.readyz())).status, 'ready');
assert.match(await ok(200, api.metrics()), /duly_operations_total/);
assert.match(JSON.stringify(await ok(200, api.openapi())), /"title":"Duly"/);
const problem = await refused(400, api.scheduleTimer({ path, body: { id: 'x', delay: '1' } }));
assert.equal(problem.field, 'delay');
await ok(204, api.deleteNamespace({ path, query: { force: true } }));

const { paths } = JSON.parse(readFileSync(document, 'utf8')) as {
  paths: Record<string, Record<string, { operationId: string }>>;
};
const ids = Object.values(paths).flatMap((path) => Object.values(path)).map((of) => of.operationId);
const camel = (id: string) => id.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
assert.deepEqual(ids.map(camel).filter((id) => !called.has(id)), [], 'not called');
console.log(`${called.size} operations called through the TypeScript client`);
