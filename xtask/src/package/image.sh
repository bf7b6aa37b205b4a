# Runs the unpacked image as its user, without a container engine. Runs as root in namespaces of its own. $ROOT is
# the root of the image, $CONTAINER_USER its user. The image has no shell, and no libraries: a binary that needs them
# gets those of this machine if $LIBRARIES says so.
set -eu

duly() {
    chroot --userspec="$CONTAINER_USER" "$ROOT" /usr/bin/duly "$@"
}

test -z "$(find "$ROOT" -name sh -o -name ld-linux\*)"
if test "$LIBRARIES" = "of this machine"; then
    for library in $(ldd "$ROOT/usr/bin/duly" | grep -o '/[^ ]*'); do
        install -D "$library" "$ROOT$library"
    done
fi
DULY_STORE__DATA=/var/lib/duly/data DULY_STORE__BACKUP_DIR=/var/lib/duly/backups \
    chroot --userspec="$CONTAINER_USER" "$ROOT" /usr/bin/duly serve >"$ROOT/../serve.out" 2>&1 &
SERVER=$!
duly health --wait 30s
duly schedule hello first --in 1s --payload-text hello
FIRED=$(duly lease hello --wait 20s)
echo "$FIRED" | grep first
duly store backup /var/lib/duly/backups/first
kill "$SERVER"
wait "$SERVER"
# The user may write to the volume alone.
if duly man --dir /usr/man; then
    echo "the user of the image can write to its root" >&2
    exit 1
fi
# Webhooks over TLS need the certificates of the image.
if grep -q "no trusted certificates" "$ROOT/../serve.out"; then
    exit 1
fi
