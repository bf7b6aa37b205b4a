#!/bin/sh
# A pull worker of curl and a shell: hands each firing to a command and settles it by its exit code.
#
#     sh worker.sh NAMESPACE COMMAND [ARGUMENT…]
#
# The command reads the answer of the lease call from its standard input: one firing, as JSON.
# 0 confirms it, 75 (EX_TEMPFAIL) asks for another attempt, anything else makes a dead letter.
# The command must end within the lease, 60 s.
set -u
namespace=$1
shift
base=${DULY_SERVER:-http://127.0.0.1:3859}/v1/namespaces/$namespace

post() { # post CALL BODY: prints the answer; fails unless it is 2xx
    curl -sS --fail-with-body --max-time 40 \
        -H 'content-type: application/json' -d "$2" "$base/$1"
}

while true; do
    firing=$(post lease '{"max":1,"lease":"60s","wait":"20s"}') || {
        echo "$firing" >&2
        sleep 1
        continue
    }
    # The token is the first field of a firing, before anything that a caller has written.
    token=$(printf '%s' "$firing" | sed -n 's/^{"firings":\[{"token":"\([^"]*\)".*/\1/p')
    if [ -z "$token" ]; then
        case $firing in *'"paused":true'*) sleep 5 ;; esac # answered at once, so wait here
        continue
    fi
    printf '%s' "$firing" | "$@"
    case $? in
    0) verdict='"ack":{}' ;;
    75) verdict='"retry":{"reason":"the command asked for another attempt"}' ;;
    *) verdict='"dead":{"reason":"the command failed"}' ;;
    esac
    # The same verdict again changes nothing. One that never gets through does no harm: the lease
    # ends and the firing comes again.
    for try in 1 2 3 4 5; do
        post settle "{\"settlements\":[{\"token\":\"$token\",$verdict}]}" && break
        sleep "$try"
    done
done
