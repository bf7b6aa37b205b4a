{{/* Name of the chart. */}}
{{- define "duly.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/*
Name of the objects. At most 52 characters: a StatefulSet adds a hash of 11 in a label.
*/}}
{{- define "duly.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of the Service that names each pod. */}}
{{- define "duly.headless" -}}
{{ include "duly.fullname" . }}-headless
{{- end }}

{{- define "duly.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "duly.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Labels that never change: selectors and volume claims have them. */}}
{{- define "duly.selectorLabels" -}}
app.kubernetes.io/name: {{ include "duly.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{/* Labels of all objects except the component. */}}
{{- define "duly.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "duly.labels" -}}
{{ include "duly.commonLabels" . }}
{{ include "duly.selectorLabels" . }}
{{- end }}

{{/* Labels of the pod of `helm test`. No Service selects it. */}}
{{- define "duly.testLabels" -}}
app.kubernetes.io/name: {{ include "duly.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end }}

{{- define "duly.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" if the server takes HTTPS, else empty. */}}
{{- define "duly.hasTls" -}}
{{- if .Values.tls.existingSecret }}true{{ end }}
{{- end }}

{{/* Proofs that callers may use, as a JSON list. */}}
{{- define "duly.authMode" -}}
{{- if or .Values.auth.mode .Values.auth.external }}
{{- toJson .Values.auth.mode }}
{{- else }}
{{- toJson (list "keys") }}
{{- end }}
{{- end }}

{{/* "true" if the root key is mounted, else empty. */}}
{{- define "duly.hasRootKey" -}}
{{- if and .Values.auth.rootKey.enabled (has "keys" (include "duly.authMode" . | fromJsonArray)) }}true{{ end }}
{{- end }}

{{/* Host name of the Service, as callers in other namespaces use it. */}}
{{- define "duly.host" -}}
{{ include "duly.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* URL of the Service. */}}
{{- define "duly.url" -}}
{{ ternary "https" "http" (eq (include "duly.hasTls" .) "true") }}://{{ include "duly.host" . }}:{{ .Values.service.port }}
{{- end }}

{{/* All names of the Services, and those of the values. */}}
{{- define "duly.allowedHosts" -}}
{{- $hosts := list }}
{{- range $service := list (include "duly.fullname" .) (include "duly.headless" .) }}
{{- $inNamespace := printf "%s.%s" $service $.Release.Namespace }}
{{- $hosts = concat $hosts (list $service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.%s" $inNamespace $.Values.clusterDomain)) }}
{{- end }}
{{- toJson (concat $hosts .Values.allowedHosts | uniq) }}
{{- end }}

{{/*
The configuration file. Not toToml: it writes integers as floats. JSON texts, integers, booleans and lists
are TOML.
*/}}
{{- define "duly.config" -}}
{{- $server := dict
  "listen" (list (printf "%s:3859" .Values.listenAddress) "unix:/run/duly/duly.sock")
  "allowed_hosts" (include "duly.allowedHosts" . | fromJsonArray) }}
{{- $config := dict "server" $server "auth" dict "tls" dict "store" dict }}
{{- with include "duly.authMode" . | fromJsonArray }}
{{- $_ := set $config.auth "mode" . }}
{{- end }}
{{- if .Values.auth.external }}
{{- $_ := set $config.auth "external" true }}
{{- end }}
{{- if include "duly.hasRootKey" . }}
{{- $_ := set $config.auth "root_key_file" "/etc/duly/root.key" }}
{{- end }}
{{- if include "duly.hasTls" . }}
{{- $_ := set $config.tls "certificate_file" "/etc/duly/tls/tls.crt" }}
{{- $_ := set $config.tls "key_file" "/etc/duly/tls/tls.key" }}
{{- end }}
{{- if eq .Values.store.type "embedded" }}
{{- $_ := set $config.store "data" "/var/lib/duly/data" }}
{{- $_ := set $config.store "backup_dir" "/var/lib/duly/backups" }}
{{- else }}
{{- with .Values.store.redis }}
{{- $_ := set $config.store "url" .url }}
{{- $_ := set $config.store "create" .create }}
{{- $_ := set $config.store "min_replicas" .minReplicas }}
{{- if .deployment }}
{{- $_ := set $config.store "deployment" .deployment }}
{{- end }}
{{- if .password.existingSecret }}
{{- $_ := set $config.store "password_file" "/etc/duly/redis/password" }}
{{- end }}
{{- if .ca.existingSecret }}
{{- $_ := set $config.store "ca_file" "/etc/duly/redis/ca.crt" }}
{{- end }}
{{- end }}
{{- end }}
{{- range $section, $keys := mergeOverwrite (deepCopy .Values.config) $config }}
{{- if $keys }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ toRawJson $value }}
{{- end }}
{{ end }}
{{- end }}
{{- end }}

{{/* Refuses values that contradict each other, all at once. */}}
{{- define "duly.check" -}}
{{- $errors := list }}
{{- if eq .Values.store.type "embedded" }}
{{- if ne (int .Values.replicas) 1 }}
{{- $errors = append $errors (printf "replicas is %v and must be 1 with store.type \"embedded\": a data directory has one server. For several nodes use store.type \"redis\" (values-redis.yaml)." .Values.replicas) }}
{{- end }}
{{- with .Values.store.redis }}
{{- range $name, $value := dict "url" .url "deployment" .deployment "password.existingSecret" .password.existingSecret "ca.existingSecret" .ca.existingSecret }}
{{- if $value }}
{{- $errors = append $errors (printf "store.redis.%s has no effect with store.type \"embedded\": leave it empty, or set store.type to \"redis\"." $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- else if not .Values.store.redis.url }}
{{- $errors = append $errors "store.redis.url is empty: set the address of Redis or Valkey, such as rediss-cluster://duly@redis-0.redis:6379,redis-1.redis:6379." }}
{{- end }}
{{- if not (or .Values.auth.external .Values.tls.existingSecret) }}
{{- $errors = append $errors "tls.existingSecret is empty: name a Secret of type kubernetes.io/tls with the certificate of the server. Only where a service mesh encrypts connections and checks callers, set auth.external to true instead." }}
{{- end }}
{{- if and (include "duly.hasRootKey" .) (not .Values.auth.rootKey.existingSecret) }}
{{- $errors = append $errors "auth.rootKey.existingSecret is empty: name a Secret with a key that `duly key generate` printed. If the store has an administrator key already, set auth.rootKey.enabled to false instead." }}
{{- end }}
{{- if and .Values.auth.rootKey.enabled .Values.auth.rootKey.existingSecret (not (include "duly.hasRootKey" .)) }}
{{- $errors = append $errors "auth.rootKey.existingSecret has no effect without keys: add \"keys\" to auth.mode, or leave it empty." }}
{{- end }}
{{- if and (has "mtls" .Values.auth.mode) (not (without .Values.auth.mode "mtls")) }}
{{- $errors = append $errors "auth.mode is [mtls] alone: then each TLS handshake needs a certificate, and the probes of Kubernetes have none. Add \"keys\" or \"jwt\" to auth.mode. Certificates alone need server.admin_listen for probes, and a deployment other than this chart." }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (eq (include "duly.authMode" .) (toJson (list "keys"))) (not .Values.metrics.serviceMonitor.apiKey.existingSecret) }}
{{- $errors = append $errors "metrics.serviceMonitor.apiKey.existingSecret is empty: metrics need a key. Name a Secret with a key that has the action `metrics`." }}
{{- end }}
{{- $owned := dict
  "server.listen" "listenAddress"
  "server.allowed_hosts" "allowedHosts"
  "auth.mode" "auth.mode"
  "auth.external" "auth.external"
  "auth.root_key_file" "auth.rootKey.existingSecret"
  "tls.certificate_file" "tls.existingSecret"
  "tls.key_file" "tls.existingSecret"
  "store.data" "store.embedded"
  "store.backup_dir" "store.embedded"
  "store.url" "store.redis.url"
  "store.password_file" "store.redis.password.existingSecret"
  "store.ca_file" "store.redis.ca.existingSecret"
  "store.deployment" "store.redis.deployment"
  "store.create" "store.redis.create"
  "store.min_replicas" "store.redis.minReplicas" }}
{{- range $section, $keys := .Values.config }}
{{- range $key, $_ := $keys }}
{{- with get $owned (printf "%s.%s" $section $key) }}
{{- $errors = append $errors (printf "config.%s.%s is written by the chart: use the value %s instead." $section $key .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $errors }}
{{- fail (printf "\n- %s" (join "\n- " $errors)) }}
{{- end }}
{{- end }}

{{/* Takes one of the probes' values and a path. */}}
{{- define "duly.probe" -}}
httpGet:
  path: {{ .path }}
  port: api
  {{- if include "duly.hasTls" .root }}
  scheme: HTTPS
  {{- end }}
{{ toYaml .times }}
{{- end }}
