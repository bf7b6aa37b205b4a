#!/usr/bin/env bash
# Runs a compiler or linker, and appends a line to $DULY_TIMINGS/compilers: elapsed seconds, seconds of CPU, the program,
# the crate with its kind, and the file that a linker makes. Set as RUSTC_WRAPPER and as the linker by
# `cargo xtask ci --timings`.
TIMEFORMAT='%R %U %S'
program=$1
# As a linker it is called without a program.
case $program in
*rustc | *clippy-driver) ;;
*)
    program=cc
    set -- cc "$@"
    ;;
esac
crate=- kind=lib file=- form=code
for ((i = 2; i <= $#; i++)); do
    next=$((i + 1))
    case ${!i} in
    --crate-name) crate=${!next} ;;
    --crate-type) kind=${!next} ;;
    --test) kind=test ;;
    -o) file=${!next##*/} ;;
    --emit=*link*) form=code ;;
    --emit=*) form=check ;;
    --target) target=${!next} ;;
    esac
done
[[ $* == *clippy-driver* ]] && form=clippy
# Several crates have integration tests of this name.
[[ $crate == it ]] && crate=${CARGO_PKG_NAME//-/_}_it
# Cargo asks the compiler for its version and settings; such a call compiles no crate.
[[ $program != cc && ($crate == - || $crate == ___) ]] && exec "$@"
exec 3>&1 4>&2
times=$({ time "$@" 1>&3 2>&4; } 2>&1)
status=$?
read -r elapsed user system <<<"$times"
printf '%s %s %s %s %s %s %s %s %s\n' \
    "$elapsed" "$user" "$system" "${program##*/}" "$crate" "$kind" "$form" "$file" "${target:-host}" \
    >>"$DULY_TIMINGS/compilers"
exit $status
