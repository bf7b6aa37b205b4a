"""Calls every operation once through the client that openapi-python-client made.

    python3 calls.py DIRECTORY_OF_THE_CLIENT DOCUMENT SERVER KEY BACKUP

A body is made by the client's own model and each response is read by one, so a model that cannot
hold what the server takes or returns is an error here.
"""

import datetime
import importlib
import inspect
import json
import pathlib
import re
import sys
import time
import typing

root, document, server, key, backup = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(root).parent))
package = pathlib.Path(root).name
client = importlib.import_module(package).AuthenticatedClient(base_url=server, token=key)
modules = {path.stem: path.parent.name for path in pathlib.Path(root).glob("api/*/*.py")}
called = set()


def model(annotation):
    """The model of a body that may be left out."""
    kinds = typing.get_args(annotation) or (annotation,)
    found = [kind for kind in kinds if hasattr(kind, "from_dict")]
    assert found, f"the type of the body is {annotation}, not a model"
    return found[0]


def comparable(value):
    """JSON with each time in one form: the models hold times, not their text."""
    if isinstance(value, dict):
        return {name: comparable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT.*", value):
        return datetime.datetime.fromisoformat(value)
    return value


def call(operation, status, *path, body=None, **query):
    """Calls an operation and returns its response as JSON."""
    called.add(operation)
    module = importlib.import_module(f"{package}.api.{modules[operation]}.{operation}")
    if body is not None:
        kind = model(inspect.signature(module.sync_detailed).parameters["body"].annotation)
        made = kind.from_dict(body)
        assert comparable(made.to_dict()) == comparable(body), f"{operation}: {body} became {made.to_dict()}"
        query["body"] = made
    response = module.sync_detailed(*path, client=client, **query)
    text = response.content.decode()
    assert response.status_code == status, f"{operation}: {response.status_code} {text}"
    if not text or operation in ("metrics", "openapi"):
        return text
    parsed = response.parsed.to_dict()
    assert comparable(parsed) == comparable(json.loads(text)), f"{operation}: {text} became {parsed}"
    return parsed


NS = "python"
call("put_namespace", 201, NS, body={"retry": {"delays": ["1h"]}, "lease": "20s"})
timer = call("schedule_timer", 201, NS, body={"id": "a/1", "delay": "1h", "payload": {"n": 1}})
assert timer["state"] == "scheduled" and timer["payload"] == {"n": 1}, timer
assert call("get_timer", 200, NS, "a/1")["id"] == "a/1"
moved = call("reschedule_timer", 200, NS, "a/1", body={"delay": "2h", "tags": ["t"]})
assert moved["revision"] == 2 and moved["tags"] == ["t"], moved
operations = [{"schedule": {"id": f"b{i}", "delay": "1h", "tags": ["t"]}} for i in range(3)]
results = call("batch", 200, NS, body={"operations": [*operations, {"cancel": {"id": "none"}}]})
assert [next(iter(result)) for result in results["results"]] == ["timer"] * 3 + ["error"], results
page = call("list_timers", 200, NS, tag="t", limit=3)
assert len(page["timers"]) == 3 and page["cursor"], page
assert len(call("list_timers", 200, NS, tag="t", cursor=page["cursor"])["timers"]) == 1
assert call("cancel_timer", 200, NS, "b0", if_revision=1)["outcome"] == "cancelled"
assert call("cancel_by_filter", 200, NS, body={"filter": {"id_prefix": "b"}})["cancelled"] == 2
assert call("fire_timer", 200, NS, "a/1")["state"] == "due"
firings = call("lease", 200, NS, body={"max": 10, "wait": "20s"})["firings"]
assert [firing["payload"] for firing in firings] == [{"n": 1}], firings
settlement = {"token": firings[0]["token"], "dead": {"reason": "never"}}
assert call("settle", 200, NS, body={"settlements": [settlement]})["results"] == [{"outcome": "ok"}]
assert call("redrive", 200, NS, body={"ids": ["a/1"], "delay": "1h"})["redriven"] == 1
past = {"due_by": "2026-01-02T00:00:00Z"}
call("schedule_timer", 201, NS, body={"id": "late", "due_at": "2026-01-01T00:00:00Z"})
assert call("dead_letter_overdue", 200, NS, body=past)["dead_lettered"] == 1
assert call("purge", 200, NS, body={"all": True})["purged"] == 1
assert call("forget_timer", 200, NS, "late")["dead_letters"] == 0
exported = call("export_timers", 200, NS, limit=10)
assert exported["namespace"]["name"] == NS and len(exported["timers"]) == 1, exported
imported = call("import_timers", 200, NS, body={"timers": exported["timers"]})
assert imported["results"] == [{"existing": True, "state": "retrying"}], imported
assert NS in [found["name"] for found in call("list_namespaces", 200, limit=10)["namespaces"]]
assert call("get_namespace", 200, NS)["lease"] == "20s"
assert call("patch_namespace", 200, NS, body={"weight": 2})["weight"] == 2
assert call("pause_namespace", 200, NS)["paused"] is True
assert call("resume_namespace", 200, NS, body={})["paused"] is False
assert call("namespace_stats", 200, NS)["retrying"] == 1
assert len(call("namespace_forecast", 200, NS, bucket="1h", count=3)["buckets"]) == 3
assert call("repair_namespace", 200, NS)["restored"] is False
assert call("repair", 403, body={"shards": [0]})["code"] == "permission_denied"
assert call("backup", 200, body={"path": f"{backup}/python"})["files"] > 0
assert call("whoami", 200)["key"]["name"] == "tools"
new = call("create_key", 201, body={"name": "shop", "actions": ["producer"], "namespaces": ["p*"], "expires_in": "90d"})
one = new["key"]["id"]
assert new["secret"].startswith(f"duly_{one}_"), new
assert call("get_key", 200, one)["actions"] == ["schedule", "read"]
assert call("patch_key", 200, one, body={"disabled": True})["disabled"] is True
assert call("rotate_key", 200, one, body={"keep_old": "1h"})["key"]["old_secret_until"]
assert one in [found["id"] for found in call("list_keys", 200, limit=10)["keys"]]
call("delete_key", 204, one)
tenant = call("put_tenant", 201, "acme-p", body={"namespaces": ["acme-p-*"], "limits": {"max_pending": 1000}})
assert tenant["limits"] == {"max_pending": 1000}, tenant
assert call("get_tenant", 200, "acme-p")["usage"]["pending"] == 0
assert "acme-p" in [found["name"] for found in call("list_tenants", 200, limit=10)["tenants"]]
call("delete_tenant", 204, "acme-p")
deadline = time.monotonic() + 20
while not [found for found in call("list_audit", 200, limit=100)["records"] if found["operation"] == "delete_key"]:
    assert time.monotonic() < deadline, "the audit log has no record of it"
    time.sleep(0.1)
assert call("cluster", 200)["ready"] is True
assert call("healthz", 200)["status"] == "alive"
assert call("readyz", 200)["status"] == "ready"
assert "duly_operations_total" in call("metrics", 200)
assert json.loads(call("openapi", 200))["info"]["title"] == "Duly"
refused = call("schedule_timer", 400, NS, body={"id": "no-time"})
assert refused["code"] == "invalid_argument" and refused["field"] == "due_at", refused
call("delete_namespace", 204, NS, force=True)

with open(document, encoding="utf-8") as file:
    paths = json.load(file)["paths"]
wanted = {operation["operationId"] for path in paths.values() for operation in path.values()}
assert called == wanted, f"not called: {sorted(wanted - called)}"
print(f"{len(called)} operations called through the Python client")
