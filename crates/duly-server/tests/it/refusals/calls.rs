//! Refusals of every call except schedule.

use super::{BATCH, DURATION, Fault, ID, INVALID, LEASE, NS, PURGE, REDRIVE, SETTLE, T, TIME};

/// Method, path, body, status, code, and the fault.
pub(super) type Row = (&'static str, &'static str, &'static str, u16, &'static str, Fault);

/// No field is at fault.
pub(super) const NONE: Fault = ("", "", "");

/// Every call except schedule, with its refusals.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // Paths.
    ("GET", "/v1/namespaces/-a/timers", "", 400, INVALID, ("namespace", "\"-a\"", "starting with a letter or a digit")),
    ("POST", "/v1/namespaces/a%20b/timers", "{\"delay\":0}", 400, INVALID, ("namespace", "\"a b\"", "A-Z a-z 0-9")),
    ("GET", "/v1/namespaces/a/timers/%2E", "", 400, INVALID, ("id", "\".\"", ID)),
    ("DELETE", "/v1/namespaces/a/timers/%2E%2E", "", 400, INVALID, ("id", "\"..\"", ID)),
    ("GET", "/v1/namespaces/a/timers/a%0Ab", "", 400, INVALID, ("id", "\"a\\nb\"", ID)),
    ("GET", "/v1/namespaces/a/timers/a%FFb", "", 400, INVALID, ("path", "\"/v1/namespaces/a/timers/a%FFb\"", "percent-encoded UTF-8")),
    ("GET", "/v1/namespaces/a/timers/a%zzb", "", 400, INVALID, ("path", "\"/v1/namespaces/a/timers/a%zzb\"", "percent-encoded UTF-8")),
    ("GET", "/v1/namespaces/a/timers/a%2", "", 400, INVALID, ("path", "\"/v1/namespaces/a/timers/a%2\"", "percent-encoded UTF-8")),

    // Bodies as a whole.
    ("POST", "/v1/namespaces/a/timers", "{", 400, INVALID, ("body", "a syntax error: EOF while parsing an object at line 1 column 1", "well-formed JSON")),
    ("POST", "/v1/namespaces/a/timers", "[]", 400, INVALID, ("body", "[]", "a JSON object")),
    ("POST", "/v1/namespaces/a/timers", " ", 400, INVALID, ("body", "nothing", "a JSON object")),
    ("POST", "/v1/namespaces/a/timers/t/fire", "{\"now\":1}", 400, INVALID, ("body", "\"{\"now\":1}\"", "empty, or {}")),

    // Query parameters of calls that have none.
    ("PATCH", "/v1/namespaces/a/timers/t?if_revision=3", "{\"delay\":\"1ms\"}", 400, INVALID, ("if_revision", "\"if_revision\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/timers?if_exists=keep", "{\"delay\":0}", 400, INVALID, ("if_exists", "\"if_exists\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/timers/t/fire?if_revision=3", "", 400, INVALID, ("if_revision", "\"if_revision\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/batch?results=errors", "{\"operations\":[]}", 400, INVALID, ("results", "", "unless the body is a stream of lines")),
    ("POST", "/v1/namespaces/a/batch?result=errors", "{\"operations\":[]}", 400, INVALID, ("result", "\"result\"", "known here: results")),
    ("POST", "/v1/namespaces/a/cancel?tag=x", "{\"all\":true}", 400, INVALID, ("tag", "\"tag\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/lease?max=5", "{}", 400, INVALID, ("max", "\"max\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/settle?x", "{\"settlements\":[]}", 400, INVALID, ("x", "\"x\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/dead/redrive?delay=1h", "{\"all\":true}", 400, INVALID, ("delay", "\"delay\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/dead/purge?limit=1", "{\"all\":true}", 400, INVALID, ("limit", "\"limit\"", "no parameter is known here")),
    ("PUT", "/v1/namespaces/a?if_revision=1", "{}", 400, INVALID, ("if_revision", "\"if_revision\"", "no parameter is known here")),
    ("PATCH", "/v1/namespaces/a?if_revision=1", "{\"weight\":2}", 400, INVALID, ("if_revision", "\"if_revision\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/pause?for=1h", "", 400, INVALID, ("for", "\"for\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/resume?x=1", "", 400, INVALID, ("x", "\"x\"", "no parameter is known here")),
    ("POST", "/v1/namespaces/a/repair?x=1", "", 400, INVALID, ("x", "\"x\"", "known here: keep")),
    ("GET", "/v1/namespaces/a?full=1", "", 400, INVALID, ("full", "\"full\"", "no parameter is known here")),
    ("GET", "/v1/namespaces/a/stats?lane=pull", "", 400, INVALID, ("lane", "\"lane\"", "no parameter is known here")),
    ("GET", "/v1/namespaces/a/forecast?lane=pull", "", 400, INVALID, ("lane", "\"lane\"", "known here: bucket, count")),

    // PATCH.
    ("PATCH", T, "{}", 400, INVALID, ("body", "", "a field to change")),
    ("PATCH", T, "{\"if_revision\":1}", 400, INVALID, ("body", "", "a field to change")),
    ("PATCH", T, "{\"id\":\"u\",\"delay\":\"1ms\"}", 400, INVALID, ("id", "\"u\"", "left out")),
    ("PATCH", T, "{\"due_at\":null}", 400, INVALID, ("due_at", "null", "cannot be reset")),
    ("PATCH", T, "{\"delay\":null}", 400, INVALID, ("delay", "null", "cannot be reset")),
    ("PATCH", T, "{\"due_at\":1,\"delay\":\"1ms\"}", 400, INVALID, ("delay", "", "exactly one of the two")),
    ("PATCH", T, "{\"due_at\":true}", 400, INVALID, ("due_at", "true", TIME)),
    ("PATCH", T, "{\"payload\":1,\"payload_text\":\"x\"}", 400, INVALID, ("payload_text", "", "one payload")),
    ("PATCH", T, "{\"payload\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}", 400, INVALID, ("payload", "65 levels", "payload_text and payload_base64")),
    ("PATCH", T, "{\"destination\":{\"http\":{\"url\":\"http://10.0.0.1/\"}}}", 400, INVALID, ("destination.http.url", "\"http://10.0.0.1\"", "is in a private network")),
    ("PUT", NS, "{\"destination\":{\"http\":{\"url\":\"http://10.0.0.1/\"}}}", 400, INVALID, ("destination.http.url", "\"http://10.0.0.1\"", "delivery.allow_networks")),
    ("PATCH", NS, "{\"fallback\":{\"destination\":{\"http\":{\"url\":\"http://[fd00::1]:8/\"}}}}", 400, INVALID, ("fallback.destination.http.url", "\"http://[fd00::1]:8\"", "is in a private network")),
    ("PATCH", T, "{\"tags\":[1]}", 400, INVALID, ("tags[0]", "1", "a string")),
    ("PATCH", T, "{\"headers\":{\"host\":\"x\"}}", 400, INVALID, ("headers.host", "\"host\"", "of your own")),
    ("PATCH", T, "{\"destination\":{\"kafka\":{}}}", 400, INVALID, ("destination.kafka", "\"kafka\"", "pull and http")),
    ("PATCH", T, "{\"retry\":{\"max_attempts\":0}}", 400, INVALID, ("retry.max_attempts", "0", "from 1 to 1000")),
    ("PATCH", T, "{\"slot_key\":\"x\"}", 400, INVALID, ("slot_key", "\"slot_key\"", "known here")),
    ("PATCH", T, "{\"delay\":\"1ms\",\"if_revision\":0}", 400, INVALID, ("if_revision", "0", "an integer from 1")),
    ("PATCH", T, "{\"delay\":\"1ms\",\"if_revision\":\"1\"}", 400, INVALID, ("if_revision", "\"1\"", "an integer")),
    ("PATCH", T, "{\"delay\":\"1ms\",\"if_revision\":7}", 409, "revision_mismatch", ("if_revision", "7", "1")),
    ("PATCH", T, "{\"delay\":\"73000d\"}", 400, INVALID, ("delay", "\"73000d\"", "before 2200-01-01")),
    ("PATCH", "/v1/namespaces/a/timers/none", "{\"delay\":\"1ms\"}", 404, "not_found", NONE),
    ("PATCH", "/v1/namespaces/a/timers/done", "{\"delay\":\"1ms\"}", 409, "finished", NONE),
    ("PATCH", "/v1/namespaces/a/timers/gone", "{\"delay\":\"1ms\"}", 409, "cancelled", NONE),
    ("PATCH", "/v1/namespaces/a/timers/dead-1", "{\"delay\":\"1ms\"}", 409, "dead", NONE),

    // GET, DELETE, fire.
    ("GET", "/v1/namespaces/a/timers/none", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/none/timers/t", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/timers/t?full=1", "", 400, INVALID, ("full", "\"full\"", "no parameter is known")),
    ("DELETE", "/v1/namespaces/a/timers/none", "", 404, "not_found", NONE),
    ("DELETE", "/v1/namespaces/none/timers/t", "", 404, "not_found", NONE),
    ("DELETE", "/v1/namespaces/a/timers/done", "", 409, "finished", NONE),
    ("DELETE", "/v1/namespaces/a/timers/dead-1", "", 409, "dead", NONE),
    ("DELETE", "/v1/namespaces/a/timers/t?if_revision=2", "", 409, "revision_mismatch", ("if_revision", "2", "1")),
    ("DELETE", "/v1/namespaces/a/timers/t?if_revision=x", "", 400, INVALID, ("if_revision", "\"x\"", "an integer")),
    ("DELETE", "/v1/namespaces/a/timers/t?if_revision=1&if_revision=1", "", 400, INVALID, ("if_revision", "", "given only once")),
    ("DELETE", "/v1/namespaces/a/timers/t?force=true", "", 400, INVALID, ("force", "\"force\"", "known here: if_revision")),
    ("POST", "/v1/namespaces/a/timers/none/fire", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/a/timers/done/fire", "", 409, "finished", NONE),
    ("POST", "/v1/namespaces/a/timers/gone/fire", "", 409, "cancelled", NONE),
    ("POST", "/v1/namespaces/a/timers/dead-1/fire", "", 409, "dead", NONE),

    // List.
    ("GET", "/v1/namespaces/a/timers?state=sleeping", "", 400, INVALID, ("state", "\"sleeping\"", "pending or one of scheduled, due")),
    ("GET", "/v1/namespaces/a/timers?limit=0", "", 400, INVALID, ("limit", "0", "from 1 to 1000")),
    ("GET", "/v1/namespaces/a/timers?limit=1001", "", 400, INVALID, ("limit", "1001", "from 1 to 1000")),
    ("GET", "/v1/namespaces/a/timers?limit=ten", "", 400, INVALID, ("limit", "\"ten\"", "an integer")),
    ("GET", "/v1/namespaces/a/timers?due_from=soon", "", 400, INVALID, ("due_from", "\"soon\"", TIME)),
    ("GET", "/v1/namespaces/a/timers?due_from=1795287316", "", 400, INVALID, ("due_from", "\"1795287316\"", "1795287316000")),
    ("GET", "/v1/namespaces/a/timers?due_to=-1", "", 400, INVALID, ("due_to", "\"-1\"", TIME)),
    ("GET", "/v1/namespaces/a/timers?cursor=junk", "", 400, INVALID, ("cursor", "\"junk\"", "the cursor of the page before")),
    ("GET", "/v1/namespaces/a/timers?color=red", "", 400, INVALID, ("color", "\"color\"", "known here: state, due_from")),
    ("GET", "/v1/namespaces/a/timers?tag=%zz", "", 400, INVALID, ("query", "\"tag=%zz\"", "percent-encoded")),
    ("GET", "/v1/namespaces/a/timers?tag=%FF", "", 400, INVALID, ("tag", "\"\u{fffd}\"", "percent-encoded UTF-8")),
    ("GET", "/v1/namespaces/none/timers", "", 404, "not_found", NONE),

    // Batch.
    ("POST", BATCH, "{}", 400, INVALID, ("operations", "", "given")),
    ("POST", BATCH, "{\"operations\":{}}", 400, INVALID, ("operations", "{}", "a JSON array")),
    ("POST", BATCH, "{\"operations\":[],\"atomic\":true}", 400, INVALID, ("atomic", "\"atomic\"", "operations")),

    // Lease.
    ("POST", LEASE, "{\"max\":0}", 400, INVALID, ("max", "0", "from 1 to 10000")),
    ("POST", LEASE, "{\"max\":10001}", 400, INVALID, ("max", "10001", "from 1 to 10000")),
    ("POST", LEASE, "{\"max_bytes\":33554433}", 400, INVALID, ("max_bytes", "33554433", "from 1 to 33554432")),
    ("POST", LEASE, "{\"lease\":\"999ms\"}", 400, INVALID, ("lease", "\"999ms\"", "from 1s to 12h")),
    ("POST", LEASE, "{\"lease\":\"13h\"}", 400, INVALID, ("lease", "\"13h\"", "from 1s to 12h")),
    ("POST", LEASE, "{\"wait\":\"61s\"}", 400, INVALID, ("wait", "\"1m1s\"", "from 0s to 1m")),
    ("POST", LEASE, "{\"wait\":20}", 400, INVALID, ("wait", "\"20\"", "\"20s\" or \"20ms\"")),
    ("POST", LEASE, "{\"wait\":1.5}", 400, INVALID, ("wait", "1.5", DURATION)),
    ("POST", LEASE, "{\"lane\":\"x\"}", 400, INVALID, ("lane", "\"lane\"", "max, max_bytes, lease, wait")),
    ("POST", "/v1/namespaces/none/lease", "{}", 404, "not_found", NONE),

    // Settle.
    ("POST", SETTLE, "{}", 400, INVALID, ("settlements", "", "given")),
    ("POST", SETTLE, "{\"settlements\":1}", 400, INVALID, ("settlements", "1", "a JSON array")),

    // Dead letters.
    ("POST", REDRIVE, "{}", 400, INVALID, ("body", "", "exactly one of ids, delivery_ids, all")),
    ("POST", REDRIVE, "{\"all\":false}", 400, INVALID, ("all", "false", "true or left out")),
    ("POST", REDRIVE, "{\"all\":true,\"ids\":[]}", 400, INVALID, ("body", "", "exactly one of")),
    ("POST", REDRIVE, "{\"ids\":[1]}", 400, INVALID, ("ids[0]", "1", "a string")),
    ("POST", REDRIVE, "{\"ids\":[],\"cursor\":\"x\"}", 400, INVALID, ("cursor", "", "left out except with all")),
    ("POST", REDRIVE, "{\"all\":true,\"cursor\":\"x\"}", 400, INVALID, ("cursor", "\"x\"", "the cursor of the page before")),
    ("POST", REDRIVE, "{\"all\":true,\"per_second\":0}", 400, INVALID, ("per_second", "0", "from 0.001 to 1000000")),
    ("POST", REDRIVE, "{\"all\":true,\"delay\":\"31d\"}", 400, INVALID, ("delay", "\"31d\"", "from 0s to 30d")),
    ("POST", PURGE, "{\"all\":true,\"delay\":\"1ms\"}", 400, INVALID, ("delay", "\"delay\"", "known here")),
    ("POST", PURGE, "{}", 400, INVALID, ("body", "", "exactly one of ids, delivery_ids, all")),
    ("POST", "/v1/namespaces/none/timers/t/forget", "{}", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/none/dead/purge", "{\"all\":true}", 404, "not_found", NONE),

    // Namespaces.
    ("GET", "/v1/namespaces/none", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/none/stats", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/none/forecast", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/forecast?bucket=999ms", "", 400, INVALID, ("bucket", "\"999ms\"", "from 1s to 366d")),
    ("GET", "/v1/namespaces/a/forecast?bucket=367d", "", 400, INVALID, ("bucket", "\"367d\"", "from 1s to 366d")),
    ("GET", "/v1/namespaces/a/forecast?bucket=60", "", 400, INVALID, ("bucket", "\"60\"", "\"60s\" or \"60ms\"")),
    ("GET", "/v1/namespaces/a/forecast?bucket=soon", "", 400, INVALID, ("bucket", "\"soon\"", DURATION)),
    ("GET", "/v1/namespaces/a/forecast?count=0", "", 400, INVALID, ("count", "0", "from 1 to 1000")),
    ("GET", "/v1/namespaces/a/forecast?count=1001", "", 400, INVALID, ("count", "1001", "from 1 to 1000")),
    ("GET", "/v1/namespaces/a/forecast?count=many", "", 400, INVALID, ("count", "\"many\"", "an integer")),
    ("GET", "/v1/namespaces?limit=0", "", 400, INVALID, ("limit", "0", "from 1 to 1000")),
    ("GET", "/v1/namespaces?cursor=%20", "", 400, INVALID, ("cursor", "\" \"", "the cursor of the page before")),
    ("DELETE", NS, "", 409, "namespace_not_empty", NONE),
    ("DELETE", "/v1/namespaces/a?force=yes", "", 400, INVALID, ("force", "\"yes\"", "true or false")),
    ("DELETE", "/v1/namespaces/none", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/none/pause", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/none/resume", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/none/repair", "", 404, "not_found", NONE),
    ("PATCH", "/v1/namespaces/none", "{\"lease\":\"5s\"}", 404, "not_found", NONE),
    ("PATCH", NS, "{}", 400, INVALID, ("body", "\"{}\"", "a field to change")),
    ("PUT", NS, "{\"color\":1}", 400, INVALID, ("color", "\"color\"", "known here: destination, fallback, retry")),
    ("PUT", NS, "{\"lease\":\"0s\"}", 400, INVALID, ("lease", "\"0s\"", "from 1s to 12h")),
    ("PUT", NS, "{\"retention\":\"3651d\"}", 400, INVALID, ("retention", "\"3651d\"", "from 0s to 3650d")),
    ("PUT", NS, "{\"weight\":0}", 400, INVALID, ("weight", "0", "from 1 to 1000")),
    ("PUT", NS, "{\"weight\":1001}", 400, INVALID, ("weight", "1001", "from 1 to 1000")),
    ("PUT", NS, "{\"destination\":{\"nats\":{}}}", 400, INVALID, ("destination.nats", "\"nats\"", "pull and http")),
    ("PUT", NS, "{\"retry\":{\"jitter\":2}}", 400, INVALID, ("retry.jitter", "\"2\"", "from 0 to 1")),
    ("PUT", NS, "{\"signing_secrets\":[\"hunter2\"]}", 400, INVALID, ("signing_secrets[0]", "", "whsec_")),
    ("PUT", NS, "{\"signing_secrets\":\"hunter2\"}", 400, INVALID, ("signing_secrets", "", "a JSON array")),
    ("PUT", NS, "{\"signing_secrets\":[\"a\",\"b\",\"c\"]}", 400, INVALID, ("signing_secrets", "\"3 secrets\"", "at most 2")),
    ("PUT", NS, "{\"limits\":{\"lane\":{\"max_in_flight\":0}}}", 400, INVALID, ("limits.lane.max_in_flight", "0", "from 1 to 100000")),
    ("PUT", NS, "{\"limits\":{\"namespace\":{\"max_payload_bytes\":16777217}}}", 400, INVALID, ("limits.namespace.max_payload_bytes", "16777217", "from 0 to 16777216")),
    ("PUT", NS, "{\"limits\":{\"namespace\":{\"max_dead\":0}}}", 400, INVALID, ("limits.namespace.max_dead", "0", "an integer from 1")),
    ("PUT", NS, "{\"limits\":{\"namespace\":{\"schedule_per_second\":0}}}", 400, INVALID, ("limits.namespace.schedule_per_second", "0", "from 1 to 100000000")),
    ("PUT", NS, "{\"limits\":{\"lane\":{\"deliver_per_second\":100000001}}}", 400, INVALID, ("limits.lane.deliver_per_second", "100000001", "from 1 to 100000000")),
    ("PUT", NS, "{\"limits\":{\"namespace\":{\"max_delay\":\"x\"}}}", 400, INVALID, ("limits.namespace.max_delay", "\"x\"", DURATION)),
    ("PUT", NS, "{\"limits\":{\"namespace\":{\"max_pending\":\"many\"}}}", 400, INVALID, ("limits.namespace.max_pending", "\"many\"", "an integer")),
    ("PUT", NS, "{\"limits\":{\"max_fun\":1}}", 400, INVALID, ("limits.max_fun", "\"max_fun\"", "lane or namespace")),
    ("PUT", "/v1/namespaces/a%2Fb", "{}", 400, INVALID, ("namespace", "\"a/b\"", "A-Z a-z 0-9")),

    // Moving.
    ("GET", "/v1/namespaces/none/export", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/export?state=due", "", 400, INVALID, ("state", "\"due\"", "pending or dead")),
    ("GET", "/v1/namespaces/a/export?limit=1001", "", 400, INVALID, ("limit", "1001", "from 1 to 1000")),
    ("POST", "/v1/namespaces/a/import?results=errors", "{\"timers\":[]}", 400, INVALID, ("results", "", "unless the body is a stream of lines")),
    ("POST", "/v1/namespaces/a/import", "{}", 400, INVALID, ("timers", "", "given")),
    ("POST", "/v1/namespaces/a/import", "{\"timers\":7}", 400, INVALID, ("timers", "7", "a JSON array")),
    ("POST", "/v1/namespaces/a/import", "{\"operations\":[]}", 400, INVALID, ("operations", "\"operations\"", "known here: timers")),

    // Unknown paths and methods.
    ("GET", "/", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/timers/", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/timers/t/u", "", 404, "not_found", NONE),
    ("PUT", T, "{}", 405, "method_not_allowed", ("method", "PUT", "GET, HEAD, PATCH, DELETE")),
    ("GET", BATCH, "", 405, "method_not_allowed", ("method", "GET", "POST")),
];
