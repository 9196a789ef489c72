#!/usr/bin/env bash
# Installs what the tests and the demo need beside a Rust toolchain, on Debian 12. Run it as often as
# you like: what is there is left alone. `scripts/setup.sh demo` leaves out what only the tests need.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}

# program -> Debian package
declare -A package_of=(
    [cc]=gcc [ld]=binutils [pkg-config]=pkg-config [make]=make [git]=git
    [qemu-system-x86_64]=qemu-system-x86 [qemu-img]=qemu-utils [nbdkit]=nbdkit [fio]=fio
    [mke2fs]=e2fsprogs [sqlite3]=sqlite3 [busybox]=busybox-static [cpio]=cpio [xz]=xz-utils [dpkg-deb]=dpkg
    [openssl]=openssl [python3]=python3 [chromium]=chromium
)
[ "$what" = demo ] || package_of+=(
    [qemu-io]=qemu-utils [qemu-nbd]=qemu-utils [qemu-storage-daemon]=qemu-system-common
    [nbdsh]=python3-libnbd [nbdcopy]=libnbd-bin [nbdinfo]=libnbd-bin [nbdfuse]=libnbd-bin
    [e2fsck]=e2fsprogs [debugfs]=e2fsprogs
    [virt-xml-validate]=libvirt-clients [virsh]=libvirt-clients [libvirtd]=libvirt-daemon [xmllint]=libxml2-utils
    [systemd-analyze]=systemd [systemd-sysusers]=systemd [systemd-tmpfiles]=systemd [unshare]=util-linux [mount]=mount
    [nsenter]=util-linux [setpriv]=util-linux
    [valgrind]=valgrind [perl]=perl [curl]=curl [mmdebstrap]=mmdebstrap [rpm]=rpm
    [etcd]=etcd-server [etcdctl]=etcd-client [protoc]=protobuf-compiler [promtool]=prometheus
    [ceph-mon]=ceph-mon [ceph-osd]=ceph-osd [ceph]=ceph-common [rbd]=ceph-common
    [tgtd]=tgt [tgtadm]=tgt [iscsi-ls]=libiscsi-bin [chromedriver]=chromium-driver
)
PATH=$PATH:/usr/sbin:/sbin
missing=()
for program in "${!package_of[@]}"; do
    command -v "$program" >/dev/null || missing+=("${package_of[$program]}")
done
[ "$what" != all ] || /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ "$what" != demo ]; then
    [ -e /usr/lib/"$(uname -m)"-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so ] || missing+=(libvirt-daemon-driver-qemu)
    [ -e /usr/include/google/protobuf/descriptor.proto ] || missing+=(libprotobuf-dev)
fi
[ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
# The guest's /sbin tools come from a busybox that needs no libraries.
if ! dpkg-query -W -f '${Status}' busybox-static 2>/dev/null | grep -q 'ok installed'; then
    missing+=(busybox-static)
fi

install_packages() {
    local sudo=()
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends
        -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300)
    echo "setup: installing $*"
    "${sudo[@]}" apt-get -qq update || echo "setup: apt-get update failed; trying with the lists that are here"
    if "${apt[@]}" install "$@" >/tmp/hearth-setup.$$ 2>&1; then
        rm -f /tmp/hearth-setup.$$
        return 0
    fi
    # Debian's QEMU packages must all be of one version. Where a newer qemu-utils came from elsewhere
    # (backports, say), take the whole set at the version that qemu-system-x86 has here.
    local version
    version=$(apt-cache madison qemu-system-x86 | awk '{ print $3; exit }')
    if [ -n "$version" ] && printf '%s\n' "$@" | grep -q '^qemu-'; then
        echo "setup: once more, all QEMU packages at $version"
        local with_qemu=()
        local name
        for name in "$@"; do
            case $name in qemu-*) ;; *) with_qemu+=("$name") ;; esac
        done
        with_qemu+=("qemu-system-x86=$version" "qemu-utils=$version" "qemu-system-common=$version" "qemu-system-data=$version")
        "${apt[@]}" install --allow-downgrades "${with_qemu[@]}" >/tmp/hearth-setup.$$ 2>&1 && { rm -f /tmp/hearth-setup.$$; return 0; }
        # qemu-system-data may be of the source's version without a binary rebuild's suffix.
        with_qemu=("${with_qemu[@]/qemu-system-data=$version/qemu-system-data=${version%+b*}}")
        "${apt[@]}" install --allow-downgrades "${with_qemu[@]}" >/tmp/hearth-setup.$$ 2>&1 && { rm -f /tmp/hearth-setup.$$; return 0; }
    fi
    cat /tmp/hearth-setup.$$ >&2
    rm -f /tmp/hearth-setup.$$
    return 1
}

if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || { echo "setup: no apt-get here; install yourself: ${missing[*]}" >&2; exit 1; }
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    install_packages "${missing[@]}"
fi

command -v cargo >/dev/null || { echo "setup: no cargo in PATH; install Rust 1.95 or newer first (https://rustup.rs)" >&2; exit 1; }
if [ "$what" = all ] && ! cargo nextest --version >/dev/null 2>&1; then
    echo "setup: installing cargo-nextest (some minutes, once)"
    cargo install --locked --quiet cargo-nextest
fi
# What is built here is kept for all checkouts of this user, since it takes minutes.
if [ "$what" = all ] || [ "$what" = packages ]; then
    kept=${XDG_CACHE_HOME:-$HOME/.cache}/hearth/tools
    mkdir -p target "$kept"
    [ -L target/tools ] || rm -rf target/tools
    ln -sfn "$kept" target/tools
    exec 9>"$kept/lock"
    flock 9
fi
# A public validator of the API's document, which Debian does not have. Its programs name the place where they were
# installed, so that place is the one that stays when this checkout goes.
if [ "$what" = all ]; then
    openapi=$kept/openapi
    if [ "$("$openapi/bin/openapi-spec-validator" --version 2>/dev/null)" != "openapi-spec-validator 0.9.0" ]; then
        echo "setup: installing openapi-spec-validator"
        rm -rf "$openapi"
        /usr/bin/python3 -m venv "$openapi"
        "$openapi/bin/pip" install --quiet --disable-pip-version-check openapi-spec-validator==0.9.0
    fi
fi
# Makers of packages. Not optimized, since each is built for minutes and runs for seconds, except what compresses, which
# is of C.
makers=target/tools/packages
if [ "$what" = all ] || [ "$what" = packages ]; then
    for tool in cargo-deb@3.8.0 cargo-cyclonedx@0.5.9; do
        grep -qsF "\"${tool/@/ } " "$makers/.crates.toml" && [ -x "$makers/bin/${tool%@*}" ] && continue
        echo "setup: installing ${tool%@*} (a minute, once)"
        CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0 CFLAGS=-O2 \
            cargo install --locked --quiet --debug --force --root "$makers" --target-dir "$makers/build" "$tool"
    done
    rm -rf "$makers/build"
fi
if [ "$what" = developer ]; then
    cargo deny --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-deny
    command -v mdbook >/dev/null || cargo install --locked --quiet mdbook
fi
