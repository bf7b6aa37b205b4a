# Installs the package in a fresh Debian, uses it, upgrades, removes and purges it. Runs as root in namespaces
# of its own. $ROOT is the root of that Debian; /first.deb and /second.deb are in it.
set -eu

export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
in_root() {
    chroot "$ROOT" "$@"
}
serve() {
    chroot --userspec=duly:duly "$ROOT" duly serve --config /etc/duly/duly.toml >"$ROOT/serve.out" 2>&1 &
    SERVER=$!
    in_root duly health --wait 30s
}
step() {
    echo "-- $*"
}

# A systemd that writes down what the scripts of the package ask of it.
mkdir -p "$ROOT/run/systemd/system"
cat >"$ROOT/usr/bin/systemctl" <<'END'
#!/bin/sh
case "$*" in
# deb-systemd-helper enables a unit by it.
*--preset-mode=enable-only*)
    mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -sf /usr/lib/systemd/system/duly.service /etc/systemd/system/multi-user.target.wants
    ;;
*)
    echo "$*" >>/systemctl.log
    ;;
esac
END
chmod 755 "$ROOT/usr/bin/systemctl"
asked() {
    grep -v daemon-reload "$ROOT/systemctl.log" >"$ROOT/asked" || true
    : >"$ROOT/systemctl.log"
    printf '%s' "$*" | tr '|' '\n' >"$ROOT/expected"
    test -z "$*" || echo >>"$ROOT/expected"
    diff "$ROOT/expected" "$ROOT/asked"
}

step install
in_root dpkg --install /first.deb
asked "is-enabled --quiet duly.service|--no-block restart duly.service"
test "$(in_root stat -c '%U:%G %a' /var/lib/duly /var/lib/duly/backups)" = "duly:duly 700
duly:duly 700"
test "$(in_root stat -c '%U:%G %a' /usr/bin/duly /etc/duly/duly.toml)" = "root:root 755
root:root 644"
in_root duly config check --config /etc/duly/duly.toml
test -L "$ROOT/etc/systemd/system/multi-user.target.wants/duly.service"
test -s "$ROOT/usr/share/man/man1/duly-schedule.1.gz"
test -s "$ROOT/usr/share/bash-completion/completions/duly"
# systemd looks for programs at the paths of this machine.
sed "s#=/usr/bin/duly #=$ROOT/usr/bin/duly #" "$ROOT/usr/lib/systemd/system/duly.service" >"$ROOT/../duly.service"
systemd-analyze verify --man=no "$ROOT/../duly.service"

step fire a timer
serve
in_root duly schedule hello first --in 1s --payload-text hello
FIRED=$(in_root duly lease hello --wait 20s)
echo "$FIRED" | grep first
in_root duly schedule hello kept --in 1d
in_root duly store backup /var/lib/duly/backups/before
kill "$SERVER" && wait "$SERVER"

step upgrade
echo '[log]
level = "warn"' >>"$ROOT/etc/duly/duly.toml"
# What an administrator has made of the folders stays.
mv "$ROOT/var/lib/duly/backups" "$ROOT/srv/backups"
ln -s /srv/backups "$ROOT/var/lib/duly/backups"
chmod 750 "$ROOT/srv/backups"
in_root dpkg --install /second.deb
asked "is-enabled --quiet duly.service|--no-block restart duly.service"
test "$(in_root stat -c '%U %a' /srv/backups)" = "duly 750"
grep -q 'level = "warn"' "$ROOT/etc/duly/duly.toml"
serve
in_root duly get hello kept | grep -q scheduled
kill "$SERVER" && wait "$SERVER"

step remove
in_root dpkg --remove duly
asked "stop duly.service"
test ! -e "$ROOT/usr/bin/duly"
test ! -e "$ROOT/usr/lib/systemd/system/duly.service"
test -e "$ROOT/etc/duly/duly.toml"

step install again, with the data of before
in_root dpkg --install /second.deb
test -L "$ROOT/etc/systemd/system/multi-user.target.wants/duly.service"
serve
in_root duly get hello kept | grep -q scheduled
kill "$SERVER" && wait "$SERVER"

step what the scripts do in an .rpm
for part in postinst prerm postrm; do
    cp "$ROOT/var/lib/dpkg/info/duly.$part" "$ROOT/$part"
done
: >"$ROOT/systemctl.log"
in_root sh /postinst 1
asked "preset duly.service"
in_root sh /postinst 2
asked "--no-block try-restart duly.service"
in_root sh /prerm 1
asked ""
in_root sh /prerm 0
asked "--no-reload disable --now duly.service"

step purge
in_root dpkg --purge duly
test ! -e "$ROOT/etc/duly"
test ! -e "$ROOT/etc/systemd/system/multi-user.target.wants/duly.service"
# Inside, because a link of the administrator leads to the backups.
in_root test -d /var/lib/duly/data
in_root test -d /var/lib/duly/backups/before
