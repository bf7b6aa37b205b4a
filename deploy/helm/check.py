#!/usr/bin/env python3
"""Checks the Helm chart without a cluster: check.py [CHART]

Needs the packages helm-python-sdk, kubernetes-validate and PyYAML. If the variable DULY_BIN names a
duly binary, it checks each rendered configuration too; that needs openssl. Prints a line for each check;
the exit code is 1 if one found a fault.
"""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import helm_python
import yaml
from kubernetes_validate.utils import all_versions, major_minor, validate

VERSIONS = list(dict.fromkeys(major_minor(version) for version in all_versions()))
RULES = Path(__file__).parent / "../../docs/operate/prometheus-rules.yaml"
NAMESPACE = "timers"
LONG_NAME = "a-release-with-the-longest-name-that-helm-permits-abc"

SECRETS = {
    "tls": {"existingSecret": "duly-tls"},
    "auth": {"rootKey": {"existingSecret": "duly-root-key"}},
}
MESH = {"auth": {"external": True}}
REDIS = {"store": {"redis": {"url": "redis://redis:6379", "minReplicas": 0}}}
CLUSTER = {
    "store": {
        "redis": {
            "url": "rediss-cluster://duly@redis-0.redis:6379,redis-1.redis:6379",
            "password": {"existingSecret": "redis-auth"},
            "ca": {"existingSecret": "redis-ca"},
            "deployment": "orders-prod",
            "create": "never",
        }
    }
}
# Everything that is off or empty by default, except what only one store has.
OPTIONS = {
    "image": {"repository": "registry.example:5000/team/duly", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "tls": {"caKey": ""},
    "listenAddress": "[::]",
    "allowedHosts": ["duly.example.com"],
    "config": {
        "auth": {"failures_per_second": 20},
        "audit": {"file": "/dev/stdout"},
        "defaults": {"max_pending": 5_000_000},
        "delivery": {"allow_networks": ["10.96.0.0/12"], "workers_max": 100_000},
        "log": {"level": "info,duly_node=debug", "format": "json"},
        "webhook": {"proxy_resolves": False, "allow_ports": ["443", "8000-8999"]},
    },
    "service": {
        "type": "LoadBalancer",
        "port": 443,
        "appProtocol": "https",
        "annotations": {"example.com/a": "b"},
    },
    "serviceAccount": {"name": "timers", "annotations": {"example.com/a": "b"}},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "networkPolicy": {
        "from": [{"namespaceSelector": {}}],
        "extraIngress": [{"ports": [{"port": 4143, "protocol": "TCP"}]}],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}],
    },
    "metrics": {
        "serviceMonitor": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "apiKey": {"existingSecret": "duly-metrics-key"},
            "relabelings": [{"action": "labeldrop", "regex": "pod"}],
            "metricRelabelings": [{"action": "labeldrop", "regex": "tenant"}],
        }
    },
    "lifecycle": {"preStop": {"exec": {"command": ["duly", "health"]}}},
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"example.com/team": "orders"},
    "priorityClassName": "high",
    "nodeSelector": {"disk": "local"},
    "tolerations": [{"key": "timers", "operator": "Exists"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
            ]
        }
    },
    "extraEnv": [{"name": "RUST_BACKTRACE", "value": "1"}],
    "extraVolumes": [{"name": "callers", "secret": {"secretName": "callers"}}],
    "extraVolumeMounts": [{"name": "callers", "mountPath": "/etc/callers", "readOnly": True}],
}
VOLUME = {
    "store": {
        "embedded": {
            "storageClass": "fast",
            "accessModes": ["ReadWriteOncePod"],
            "annotations": {"example.com/a": "b"},
        }
    }
}


def merged(*layers):
    """Returns values of which a later layer wins."""
    result = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result


# Name of the case: file of values, further values, kinds that are rendered besides those of every case.
RENDERED = {
    "embedded": ("values-embedded.yaml", SECRETS, set()),
    "embedded, mesh": ("values-embedded.yaml", MESH, set()),
    "embedded, mesh and keys": (
        "values-embedded.yaml",
        merged(MESH, {"auth": {"mode": ["keys"], "rootKey": {"existingSecret": "duly-root-key"}}}),
        set(),
    ),
    "embedded, root key removed": (
        "values-embedded.yaml",
        merged(SECRETS, {"auth": {"rootKey": {"enabled": False}}}),
        set(),
    ),
    "embedded, all options": (
        "values-embedded.yaml",
        merged(SECRETS, OPTIONS, VOLUME),
        {"PodDisruptionBudget", "ServiceMonitor"},
    ),
    "redis, one server": ("values-redis.yaml", merged(SECRETS, REDIS), {"PodDisruptionBudget"}),
    "redis, mesh": ("values-redis.yaml", merged(MESH, REDIS), {"PodDisruptionBudget"}),
    "redis, all options": (
        "values-redis.yaml",
        merged(SECRETS, CLUSTER, OPTIONS, {"replicas": 5}),
        {"PodDisruptionBudget", "ServiceMonitor"},
    ),
    "redis, fewest objects": (
        "values-redis.yaml",
        merged(
            MESH,
            REDIS,
            {
                "podDisruptionBudget": {"enabled": False},
                "networkPolicy": {"enabled": False},
                "serviceAccount": {"create": False},
            },
        ),
        {"-NetworkPolicy", "-ServiceAccount"},
    ),
}
ALWAYS = {"ConfigMap", "NetworkPolicy", "Pod", "Service", "ServiceAccount", "StatefulSet"}
# Cases that are checked against every version of Kubernetes, the others against the oldest and newest.
ALL_VERSIONS = {"embedded, all options", "redis, all options"}

# Name of the case: file of values, further values, texts in the refusal.
REFUSED = {
    "embedded, 2 replicas": (
        "values-embedded.yaml",
        merged(SECRETS, {"replicas": 2}),
        ["replicas is 2 and must be 1", "values-redis.yaml"],
    ),
    "neither TLS nor external": (
        "values-embedded.yaml",
        {},
        ["tls.existingSecret is empty", "auth.external", "auth.rootKey.existingSecret is empty"],
    ),
    "TLS without a root key": (
        "values-redis.yaml",
        merged(REDIS, {"tls": {"existingSecret": "duly-tls"}}),
        ["auth.rootKey.existingSecret is empty", "auth.rootKey.enabled"],
    ),
    "mesh with keys, without a root key": (
        "values-embedded.yaml",
        merged(MESH, {"auth": {"mode": ["keys"]}}),
        ["auth.rootKey.existingSecret is empty"],
    ),
    "redis without a URL": ("values-redis.yaml", SECRETS, ["store.redis.url is empty"]),
    "embedded with a URL": (
        "values-embedded.yaml",
        merged(SECRETS, {"store": {"redis": {"url": "redis://redis:6379"}}}),
        ["store.redis.url has no effect"],
    ),
    "embedded with other values of Redis": (
        "values-embedded.yaml",
        merged(
            SECRETS,
            {"store": {"redis": {"deployment": "orders", "password": {"existingSecret": "redis-auth"}}}},
        ),
        ["store.redis.password.existingSecret has no effect", "store.redis.deployment has no effect"],
    ),
    "a root key without keys": (
        "values-embedded.yaml",
        merged(MESH, {"auth": {"rootKey": {"existingSecret": "duly-root-key"}}}),
        ["auth.rootKey.existingSecret has no effect", "auth.mode"],
    ),
    "certificates alone, which probes do not have": (
        "values-embedded.yaml",
        merged(SECRETS, {"auth": {"mode": ["mtls"], "rootKey": {"enabled": False}}}),
        ["auth.mode is [mtls] alone", "keys", "server.admin_listen"],
    ),
    "a password in the URL": (
        "values-redis.yaml",
        merged(SECRETS, {"store": {"redis": {"url": "redis://duly:secret@redis:6379"}}}),
        ["store", "url", "pattern"],
    ),
    "ServiceMonitor without a key": (
        "values-embedded.yaml",
        merged(SECRETS, {"metrics": {"serviceMonitor": {"enabled": True}}}),
        ["metrics.serviceMonitor.apiKey.existingSecret is empty"],
    ),
    "a key of the chart in config": (
        "values-embedded.yaml",
        merged(SECRETS, {"config": {"server": {"listen": ["0.0.0.0:80"]}}}),
        ["config.server.listen is written by the chart", "listenAddress"],
    ),
    "a section of config that is no map": (
        "values-embedded.yaml",
        merged(SECRETS, {"config": {"log": "debug"}}),
        ["config", "log", "object"],
    ),
    "an unknown value": ("values-embedded.yaml", merged(SECRETS, {"replica": 1}), ["replica", "not allowed"]),
    "an unknown value below": (
        "values-embedded.yaml",
        merged(SECRETS, {"auth": {"rootKey": {"exisitingSecret": "x"}}}),
        ["rootKey", "exisitingSecret", "not allowed"],
    ),
    "a digest that is none": (
        "values-embedded.yaml",
        merged(SECRETS, {"image": {"digest": "sha256:abc"}}),
        ["digest", "pattern"],
    ),
    "no replicas": ("values-redis.yaml", merged(SECRETS, REDIS, {"replicas": 0}), ["replicas", "minimum"]),
    "NFS by the access mode": (
        "values-embedded.yaml",
        merged(SECRETS, {"store": {"embedded": {"accessModes": ["ReadWriteMany"]}}}),
        ["accessModes"],
    ),
}


class Report:
    """Prints a line for each check and counts faults."""

    def __init__(self):
        self.faults = 0

    def check(self, name, faults):
        """Notes a check that found these faults."""
        print(f"{'FAULT' if faults else 'ok':5} {name}", flush=True)
        for fault in faults:
            print(f"      {fault}")
        self.faults += len(faults)


def values_of(chart_dir, file, further):
    """Returns the values of a file with further ones."""
    return merged(helm_python.values_from_yaml((chart_dir / file).read_text()), further)


def render(chart, values, name="duly"):
    """Renders like an installation, which checks the schema first. Returns documents by file."""
    chart.validate_schema(values)
    rendered = chart.render(values, name=name, namespace=NAMESPACE)
    return {path: text for path, text in rendered.items() if text.strip()}


def documents(rendered):
    """Returns the Kubernetes objects of what was rendered."""
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def lint_faults(chart_dir, values):
    """Lints strictly. Only the recommendation of an icon is accepted."""
    report = helm_python.lint(chart_dir, values, strict=True)
    messages = [message["error"] for message in report["messages"]]
    return [text for text in messages + report["errors"] if text != "icon is recommended"]


def value_faults(chart_dir):
    """Checks that values and their schema have the same keys, and that the schema admits no other."""
    values = yaml.safe_load((chart_dir / "values.yaml").read_text())
    schema = json.loads((chart_dir / "values.schema.json").read_text())
    return key_faults(values, schema, schema, "")


def key_faults(values, schema, root, place):
    """Compares the keys of values and of a schema."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rsplit("/", 1)[1]]
    if not isinstance(values, dict) or "properties" not in schema:
        return []
    faults = []
    if schema.get("additionalProperties") is not False:
        faults.append(f"values.schema.json: {place or 'the root'} admits unknown keys")
    # Helm adds `global`. The others are optional keys of Kubernetes.
    optional = {"global", "claims", "initialDelaySeconds", "successThreshold"}
    for key in set(values) ^ set(schema["properties"]) - optional:
        faults.append(f"{place}.{key} is in values.yaml or in values.schema.json only")
    for key in set(values) & set(schema["properties"]):
        faults += key_faults(values[key], schema["properties"][key], root, f"{place}.{key}")
    return faults


def kind_faults(objects, further):
    """Checks which kinds are rendered."""
    less = {kind[1:] for kind in further if kind.startswith("-")}
    expected = (ALWAYS | {kind for kind in further if not kind.startswith("-")}) - less
    found = {it["kind"] for it in objects}
    return [] if found == expected else [f"kinds are {sorted(found)}, and not {sorted(expected)}"]


def schema_faults(objects, versions):
    """Validates objects strictly by the schemas of Kubernetes, except for custom resources."""
    faults = []
    for it in objects:
        if it["kind"] == "ServiceMonitor":
            continue
        for version in versions:
            try:
                validate(it, version, strict=True)
            except Exception as error:
                text = getattr(error, "message", error)
                faults.append(f"{it['kind']} {it['metadata']['name']}, Kubernetes {version}: {text}")
    return faults


def service_monitor_faults(objects):
    """Checks what the schemas of Kubernetes do not know."""
    faults = []
    for it in objects:
        if it["kind"] != "ServiceMonitor":
            continue
        if it["apiVersion"] != "monitoring.coreos.com/v1":
            faults.append(f"apiVersion {it['apiVersion']}")
        services = [one for one in objects if one["kind"] == "Service"]
        services = [one for one in services if selects(it["spec"]["selector"], one)]
        if len(services) != 1:
            faults.append(f"the ServiceMonitor selects {len(services)} Services, and not 1")
        alert = re.search('up{job=~"([^"]*)"}', RULES.read_text())[1]
        for endpoint in it["spec"]["endpoints"]:
            job = next(rule for rule in endpoint["relabelings"] if rule.get("targetLabel") == "job")
            if not re.fullmatch(alert, job["replacement"]):
                faults.append(f"the job {job['replacement']} is none of {alert}, of the alert DulyDown")
            ports = [port["name"] for one in services for port in one["spec"]["ports"]]
            if endpoint["port"] not in ports:
                faults.append(f"the port {endpoint['port']} is none of {ports}")
            known = {"port", "path", "interval", "scrapeTimeout", "scheme", "tlsConfig", "authorization"}
            unknown = set(endpoint) - known - {"relabelings", "metricRelabelings"}
            faults += [f"unknown key of an endpoint: {key}" for key in unknown]
            if (endpoint.get("scheme") == "https") != ("tlsConfig" in endpoint):
                faults.append("scheme and tlsConfig do not belong together")
    return faults


def selects(selector, it):
    """Returns True if a selector matches the labels of an object."""
    labels = it["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector["matchLabels"].items())


def reference_faults(objects):
    """Checks that selectors, ports, volumes and names of objects refer to something."""
    faults = []
    one = {it["kind"]: it for it in objects}
    services = {it["metadata"]["name"]: it for it in objects if it["kind"] == "Service"}
    spec = one["StatefulSet"]["spec"]
    template, pod = spec["template"], spec["template"]["spec"]
    test_pod = one["Pod"]

    def expect(is_right, fault):
        if not is_right:
            faults.append(fault)

    expect(spec["serviceName"] in services, f"there is no Service {spec['serviceName']}")
    selectors = [("StatefulSet", spec["selector"])]
    selectors += [(name, {"matchLabels": it["spec"]["selector"]}) for name, it in services.items()]
    for kind, key in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
        if kind in one:
            selectors.append((kind, one[kind]["spec"][key]))
    for constraint in pod.get("topologySpreadConstraints", []):
        selectors.append(("a topologySpreadConstraint", constraint["labelSelector"]))
    for name, selector in selectors:
        expect(selects(selector, template), f"{name} does not select the pods")
        expect(not selects(selector, test_pod), f"{name} selects the pod of the test")

    container = pod["containers"][0]
    ports = {port["name"] for port in container["ports"]}
    used = {container[probe]["httpGet"]["port"] for probe in container if probe.endswith("Probe")}
    used |= {port["targetPort"] for it in services.values() for port in it["spec"]["ports"]}
    if "NetworkPolicy" in one:
        rule = one["NetworkPolicy"]["spec"]["ingress"][0]
        used |= {port["port"] for port in rule["ports"]}
    expect(used <= ports, f"the ports {used - ports} do not exist")

    for name, its, claims in [
        ("StatefulSet", pod, spec.get("volumeClaimTemplates", [])),
        ("Pod", test_pod["spec"], []),
    ]:
        volumes = {volume["name"] for volume in its.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        mounts = {mount["name"] for it in its["containers"] for mount in it.get("volumeMounts", [])}
        expect(volumes == mounts, f"{name}: volumes {volumes} and mounts {mounts} differ")
        account = its["serviceAccountName"]
        made = one["ServiceAccount"]["metadata"]["name"] if "ServiceAccount" in one else "default"
        expect(account == made, f"{name}: there is no service account {account}")
    url = test_pod["spec"]["containers"][0]["env"][0]["value"]
    host, port = url.split("://")[1].split(":")
    name = host.removesuffix(f".{NAMESPACE}.svc")
    expect(name in services, f"the test calls {url}, and there is no such Service")
    expect(int(port) == services[name]["spec"]["ports"][0]["port"], f"the test calls {url}: wrong port")
    return faults


def security_faults(objects):
    """Checks the rules of the Pod Security Standard "restricted", and those of this chart."""
    faults = []
    for it in objects:
        if it["kind"] not in ("StatefulSet", "Pod"):
            continue
        pod = it["spec"]["template"]["spec"] if it["kind"] == "StatefulSet" else it["spec"]
        context = pod["securityContext"]
        rules = {
            "runAsNonRoot": context["runAsNonRoot"] is True,
            "user 10001": {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {10001},
            "seccompProfile": context["seccompProfile"] == {"type": "RuntimeDefault"},
            "no token": pod["automountServiceAccountToken"] is False,
            "no host": not {"hostNetwork", "hostPID", "hostIPC"} & set(pod),
        }
        for container in pod["containers"]:
            own = container["securityContext"]
            rules["readOnlyRootFilesystem"] = own["readOnlyRootFilesystem"] is True
            rules["allowPrivilegeEscalation"] = own["allowPrivilegeEscalation"] is False
            rules["drop ALL"] = own["capabilities"] == {"drop": ["ALL"]}
            rules["a memory limit"] = "memory" in container["resources"]["limits"]
            rules["no subPath"] = not any("subPath" in mount for mount in container.get("volumeMounts", []))
        faults += [f"{it['kind']}: {rule}" for rule, is_kept in rules.items() if not is_kept]
    return faults


def store_faults(objects, values):
    """Checks the volume, the number of pods and the time for a stop of each kind of store."""
    spec = next(it for it in objects if it["kind"] == "StatefulSet")["spec"]
    is_embedded = values["store"]["type"] == "embedded"
    grace = spec["template"]["spec"]["terminationGracePeriodSeconds"]
    rules = {
        "claims": len(spec.get("volumeClaimTemplates", [])) == (1 if is_embedded else 0),
        "replicas": spec["replicas"] == (1 if is_embedded else values["replicas"]),
        "terminationGracePeriodSeconds": grace == (120 if is_embedded else 60),
    }
    return [rule for rule, is_kept in rules.items() if not is_kept]


def config_of(objects):
    """Returns the text of the configuration file."""
    return next(it for it in objects if it["kind"] == "ConfigMap")["data"]["duly.toml"]


def config_faults(objects, values):
    """Checks that the configuration is TOML, has further keys unchanged, and names mounted files."""
    faults, config = [], tomllib.loads(config_of(objects))
    for section, keys in values.get("config", {}).items():
        for key, value in keys.items():
            found = config.get(section, {}).get(key)
            if found != value or type(found) is not type(value):
                faults.append(f"{section}.{key} is {found!r}, and not {value!r}")
    services = [it["metadata"]["name"] for it in objects if it["kind"] == "Service"]
    for name in [form for it in services for form in (it, f"{it}.{NAMESPACE}", f"{it}.{NAMESPACE}.svc")]:
        if name not in config["server"]["allowed_hosts"]:
            faults.append(f"server.allowed_hosts lacks {name}")
    mounted = mounted_files(objects)
    for path in named_files(config):
        if path.startswith("/etc/duly/") and path not in mounted:
            faults.append(f"the configuration names {path}, which is not mounted")
    for path in mounted - set(named_files(config)) - {"/etc/duly/duly.toml"}:
        faults.append(f"{path} is mounted, and the configuration does not name it")
    return faults


def named_files(config):
    """Returns the paths that a configuration names."""
    values = [value for keys in config.values() for value in keys.values()]
    return [value for value in values if isinstance(value, str) and value.startswith("/")]


def mounted_files(objects):
    """Returns the paths of the files below /etc/duly."""
    pod = next(it for it in objects if it["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    sources = next(it for it in pod["volumes"] if it["name"] == "config")["projected"]["sources"]
    items = [item["path"] for source in sources for item in source.get("secret", {}).get("items", [])]
    config = next(it for it in objects if it["kind"] == "ConfigMap")
    return {f"/etc/duly/{path}" for path in items + list(config["data"])}


def binary_faults(duly, text):
    """Checks a configuration by `duly config check`, with files of its own in place of those it names."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        make_files(duly, root, named_files(tomllib.loads(text)))
        for path in ("/etc/duly", "/var/lib/duly", "/run/duly"):
            text = text.replace(path, f"{root}{path}")
        (root / "duly.toml").write_text(text)
        # Only the variables of the image.
        variables = {
            "DULY_STORE__DATA": f"{root}/var/lib/duly/data",
            "DULY_STORE__BACKUP_DIR": f"{root}/var/lib/duly/backups",
        }
        command = [duly, "config", "check", "--config", root / "duly.toml"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        return [] if done.returncode == 0 else [line for line in done.stderr.splitlines() if line]


def make_files(duly, root, paths):
    """Makes the files that a configuration names below a directory."""
    for directory in ("etc/duly/tls", "etc/duly/redis", "var/lib/duly", "run/duly"):
        (root / directory).mkdir(parents=True)
    tls = root / "etc/duly/tls"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=duly -days 2"
    run([*command.split(), "-keyout", tls / "tls.key", "-out", tls / "tls.crt"])
    for path in paths:
        file = root / path.removeprefix("/")
        if path == "/etc/duly/root.key":
            file.write_text(run([duly, "key", "generate"]))
        elif path == "/etc/duly/redis/password":
            file.write_text("secret")
        elif path == "/etc/duly/redis/ca.crt":
            file.write_text((tls / "tls.crt").read_text())


def run(command):
    """Runs a command and returns its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def name_faults(objects):
    """Checks that no name or label is longer than Kubernetes permits."""
    faults = []
    for it in objects:
        name, labels = it["metadata"]["name"], it["metadata"]["labels"]
        # The controller adds a hash in a label of the pods.
        limit = 52 if it["kind"] == "StatefulSet" else 63
        if len(name) > limit:
            faults.append(f"{it['kind']}: {name} is longer than {limit} characters")
        faults += [f"label {key}: {value}" for key, value in labels.items() if len(value) > 63]
        if it["metadata"]["namespace"] != NAMESPACE:
            faults.append(f"{it['kind']} {name} is in the namespace {it['metadata']['namespace']}")
    return faults


def refusal_faults(chart, values, texts):
    """Checks that values are refused with these texts."""
    try:
        render(chart, values)
    except helm_python.HelmError as error:
        return [f"the refusal lacks {text!r}: {error}" for text in texts if text not in str(error)]
    return ["the values are accepted"]


def checksum_of(chart, values):
    """Returns the annotation that restarts pods."""
    objects = documents(render(chart, values))
    spec = next(it for it in objects if it["kind"] == "StatefulSet")["spec"]
    return spec["template"]["metadata"]["annotations"].get("checksum/config")


def restart_faults(chart, values):
    """Checks that a change of the configuration restarts pods, and that more pods restart none."""
    before = checksum_of(chart, values)
    faults = []
    if before == checksum_of(chart, merged(values, {"config": {"log": {"level": "debug"}}})):
        faults.append("a change of the configuration restarts no pod")
    if before != checksum_of(chart, merged(values, {"replicas": values["replicas"] + 1})):
        faults.append("a change of replicas restarts pods")
    return faults


def check_rendered(report, chart, chart_dir, duly):
    """Checks every case that is rendered."""
    for name, (file, further, kinds) in RENDERED.items():
        values = values_of(chart_dir, file, further)
        try:
            rendered = render(chart, values)
        except helm_python.HelmError as error:
            report.check(f"{name}: render", [error])
            continue
        objects = documents(rendered)
        report.check(f"{name}: lint", lint_faults(chart_dir, values))
        report.check(f"{name}: {len(objects)} objects", kind_faults(objects, kinds))
        versions = VERSIONS if name in ALL_VERSIONS else [VERSIONS[0], VERSIONS[-1]]
        title = ", ".join(versions) if len(versions) == 2 else f"{versions[0]} to {versions[-1]}"
        report.check(f"{name}: schemas of Kubernetes {title}", schema_faults(objects, versions))
        faults = reference_faults(objects) + service_monitor_faults(objects) + name_faults(objects)
        report.check(f"{name}: names and references", faults)
        faults = security_faults(objects) + store_faults(objects, values)
        report.check(f"{name}: security, volumes, replicas", faults)
        report.check(f"{name}: configuration", config_faults(objects, values))
        if duly:
            report.check(f"{name}: duly config check", binary_faults(duly, config_of(objects)))


def main():
    chart_dir = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "duly"
    duly, report = os.environ.get("DULY_BIN"), Report()
    print(f"Helm {helm_python.helm_sdk_version()}, Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}")
    with helm_python.Chart.load(chart_dir) as chart:
        report.check("lint with the default values", lint_faults(chart_dir, None))
        report.check("values and their schema have the same keys", value_faults(chart_dir))
        check_rendered(report, chart, chart_dir, duly)
        redis = values_of(chart_dir, "values-redis.yaml", merged(SECRETS, REDIS))
        objects = documents(render(chart, redis, LONG_NAME))
        report.check("the longest name of a release", name_faults(objects) + reference_faults(objects))
        report.check("restarts", restart_faults(chart, redis))
        for name, (file, further, texts) in REFUSED.items():
            faults = refusal_faults(chart, values_of(chart_dir, file, further), texts)
            report.check(f"refused: {name}", faults)
    if not duly:
        print("not checked: `duly config check`, because DULY_BIN is not set")
    print(f"{report.faults} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
