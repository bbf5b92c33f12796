#!/usr/bin/env bash
# test_package.sh SOURCE WORK - what an installation gives: files, exports, find_package, pkg-config, the .deb.
#
# Builds SOURCE as a packager does (release, prefix /usr), stages it below WORK and uses it from outside.
set -uo pipefail
source=$(cd "$1" && pwd)
rm -rf "$2" && mkdir -p "$2" && work=$(cd "$2" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
build=$work/build root=$work/root
export HASPLOCK_LOCAL_DIR                               # the consumers' local: is their own; paths of sockets are short
HASPLOCK_LOCAL_DIR=$(mktemp -d /tmp/hlk-package-XXXXXX) || exit 1
trap 'rm -rf "$HASPLOCK_LOCAL_DIR"' EXIT

. "$here/check.sh"

builds() {
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DHLK_WERROR=ON &&
        cmake --build "$build" && DESTDIR=$root cmake --install "$build"
}
check "builds and installs" builds
[ $failed -eq 0 ] || finish

library=$(dirname "$(find "$root" -name libhasplock.so)")
libdir=${library#"$root"}
export LD_LIBRARY_PATH=$library

# --- what is there
installs_all() {
    local file
    for file in "$library"/libhasplock.{so,so.0,a} "$library"/pkgconfig/hasplock.pc "$root"/usr/bin/hasplock \
        "$library"/cmake/hasplock/hasplock{Config,ConfigVersion,Targets,StaticTargets}.cmake \
        "$root"/usr/share/man/man1/hasplock.1 "$root"/usr/share/doc/hasplock/copyright \
        "$root"/usr/share/hasplock/hasplock.supp "$root"/usr/share/bash-completion/completions/hasplock; do
        [ -e "$file" ] || { echo "missing: ${file#"$root"}"; return 1; }
    done
    diff <(cd "$source/include/hasplock" && ls) <(cd "$root/usr/include/hasplock" && ls)
    for file in "$source"/include/hasplock/*.h; do      # a page per public header
        file=$(basename "$file" .h)
        case $file in hasplock | export) continue ;; esac
        [ -e "$root/usr/share/man/man3/hlk_$file.3" ] || { echo "no page hlk_$file.3"; return 1; }
    done
}
has_a_page_for_each_name() {                            # functions, and types of functions
    local name page link
    for name in $(declared | cut -d @ -f 1) \
        $(grep -hoP '^typedef (void|int) \Khlk_\w+_fn' "$root"/usr/include/hasplock/*.h); do
        page=$root/usr/share/man/man3/$name.3
        echo "$name"
        link=$(sed -n 's/^\.so //p' "$page")
        [ -z "$link" ] || page=$root/usr/share/man/$link
        grep -Fq "${name//_/\\_}" "$page" || grep -Fq "$name" "$page"
    done
}
has_each_option_on_its_page() {
    local command option page
    page=$(sed 's/\\f[BIR]//g; s/\\-/-/g' "$root/usr/share/man/man1/hasplock.1")
    for command in run show list break doctor; do
        for option in $("$root/usr/bin/hasplock" $command --help | grep -oP '(?<![\w-])--[a-z][a-z-]+' | sort -u); do
            grep -Fwq -- "$option" <<<"$page" || { echo "$command $option"; return 1; }
        done
    done
}
# Each shell finds it under the program's name: bash where bash-completion looks, zsh in a folder of its own fpath.
has_completion() {
    local file
    bash -c '. "$0" && complete -p hasplock' "$root/usr/share/bash-completion/completions/hasplock"
    file=$(find "$root/usr/share/zsh" -name _hasplock)
    [ "$(head -n 1 "$file")" = '#compdef hasplock' ]
    if [ -e /etc/debian_version ]; then
        [ "$file" = "$root/usr/share/zsh/vendor-completions/_hasplock" ]
    fi
}
# What an installed page, header or example names of the source tree, or links to, lies under share/doc/hasplock.
has_the_files_that_pages_name() {
    local doc=$root/usr/share/doc/hasplock named page
    named=$(find "$root"/usr/{include,share/man,share/doc} -type f -exec cat {} + | sed 's/\\&//g' |
        grep -oP '(?<![\w/.-])(docs|examples|tests|src|cli|lua|bench|include)/[\w./-]*\w' | sort -u)
    grep -x docs/safety.md <<<"$named"
    grep -x examples/fenced_stock.c <<<"$named"
    (cd "$doc" && xargs ls -d <<<"$named")
    for page in "$doc"/*.md "$doc"/docs/*.md; do
        (cd "$(dirname "$page")" && { grep -oP '\]\(\K[^):]+' "$page" || true; } | sed 's/#.*//' | xargs -r ls -d)
    done
}
exported() { nm -D --defined-only "$library/libhasplock.so" | awk '$2 != "A" { print $3 }' | sort; }
declared() {
    cat "$source"/include/hasplock/*.h |
        perl -0777 -ne 'print "$1\@\@HASPLOCK_0\n" while /^HLK_API[^;(]*?\b(hlk_\w+)\(/mg' | sort
}
exports_what_headers_declare() { diff <(declared) <(exported); }
has_its_soname() { readelf -d "$library/libhasplock.so" | grep -F 'soname: [libhasplock.so.0]'; }
names_no_build_path() {
    ! grep -rl -e "$work" -e "$source" "$root/usr/lib" "$root/usr/bin" "$root/usr/include"
}
warns_not() { "$@" -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$root/usr/include" -fsyntax-only; }
cxx_warns_not() {                                       # FILE
    local cxx std
    for cxx in g++ clang++; do
        for std in c++11 c++17 c++20; do
            warns_not $cxx -std=$std -x c++ "$1" -Wold-style-cast -Wzero-as-null-pointer-constant
        done
    done
}
headers_stand_alone() {
    local header
    for header in "$root"/usr/include/hasplock/*.h; do
        echo "#include <hasplock/$(basename "$header")>" >"$work/alone.c"
        warns_not gcc -std=c11 "$work/alone.c"
        cxx_warns_not "$work/alone.c"
    done
}
hpp_compiles() {
    cxx_warns_not "$source/tests/integration/test_guard_cxx.cpp"
    echo '#include <hasplock/hasplock.hpp>
        hasplock::guard f(hlk_lock *lock); hasplock::guard f(hlk_lock *lock) { return hasplock::guard(lock); }' \
        >"$work/no_exceptions.cpp"
    warns_not g++ -std=c++17 -fno-exceptions "$work/no_exceptions.cpp"
}
macros_compile() {
    local name
    {
        printf '#include <hasplock/hasplock.h>\nint f(hlk_lock *lock);\nint f(hlk_lock *lock) {\n'
        for name in hlk_client_opts hlk_lock_opts hlk_acquire_opts hlk_lock_state; do
            echo "struct $name $name = ${name^^}_INIT; (void)$name;"
        done
        echo 'HLK_GUARD(held, lock, HLK_NOWAIT); HLK_GUARD(nested, lock, HLK_FOREVER);'
        echo 'HLK_GUARD_WITH(with, lock, &hlk_acquire_opts); HLK_GUARD_ADOPT(adopted, lock);'
        echo 'return held.status == HLK_OK && nested.status == with.status && adopted.status == HLK_OK; }'
    } >"$work/macros.c"
    warns_not gcc -std=c11 "$work/macros.c"
    cxx_warns_not "$work/macros.c"
}
check "installs library, headers, command, man pages, CMake and pkg-config files" installs_all
check "has a man page for each function and type of function" has_a_page_for_each_name
check "has each option of --help on the man page" has_each_option_on_its_page
check "installs completion for bash and zsh where they look for it" has_completion
check "installs the documents and examples that pages and headers name" has_the_files_that_pages_name
check "exports what the headers declare, nothing else, all of version HASPLOCK_0" exports_what_headers_declare
check "has the soname libhasplock.so.0" has_its_soname
check "names no path of the build" names_no_build_path
check "each header stands alone, as C11, C++11, C++17 and C++20, without warnings" headers_stand_alone
check "hasplock.hpp compiles in use without warnings, its guard without exceptions" hpp_compiles
check "the INIT macros and the guards of C compile without warnings" macros_compile

# --- find_package
consume() {                                             # FOLDER COMPONENTS LIBRARY
    cmake -S "$here/consumer" -B "$work/$1" -G Ninja "-DCMAKE_PREFIX_PATH=$root/usr" "-DCOMPONENTS=$2" "-DLIBRARIES=$3"
    cmake --build "$work/$1"
    "$work/$1/c_${3#*::}" | grep -Fx 'hasplock 0.1.0'
    "$work/$1/cxx_${3#*::}" | grep -Fx 'hasplock 0.1.0'
}
shared_consumer() { consume shared "" hasplock::hasplock; }
static_consumer() {
    consume static "COMPONENTS;static" hasplock::hasplock_static
    ! readelf -d "$work/static/c_hasplock_static" | grep hasplock
}
refuses_the_next_minor() {
    cp -r "$here/consumer" "$work/consumer-next"
    sed -i 's/find_package(hasplock 0.1/find_package(hasplock 0.2/' "$work/consumer-next/CMakeLists.txt"
    ! cmake -S "$work/consumer-next" -B "$work/next" -G Ninja "-DCMAKE_PREFIX_PATH=$root/usr"
}
check "find_package: C and C++ programs build, lock and release" shared_consumer
check "find_package COMPONENTS static: the same without the shared library" static_consumer
# A thread that called the library ends after a dlclose: its destructor must still be there.
may_be_unloaded() { "$work/shared/unloaded" "$library/libhasplock.so.0"; }
check "a thread that called it may end after a dlclose" may_be_unloaded
names_an_unknown_component() {
    ! cmake -S "$here/consumer" -B "$work/unknown" -G Ninja "-DCMAKE_PREFIX_PATH=$root/usr" \
        "-DCOMPONENTS=COMPONENTS;fenced" 2>"$work/unknown.said"
    grep -F 'there is no component "fenced", only "static"' "$work/unknown.said"
}
check "find_package: 0.2 is not 0.1" refuses_the_next_minor
check "find_package: a component that there is not is named" names_an_unknown_component

# --- add_subdirectory: libraries, and nothing else
within_another() {
    cmake -S "$here/within" -B "$work/within" -G Ninja "-DHASPLOCK=$source" "-DCONSUMER=$here/consumer"
    grep -Fx CMAKE_BUILD_TYPE:STRING= "$work/within/CMakeCache.txt"
    cmake --build "$work/within"
    "$work/within/within_shared" | grep -Fx 'hasplock 0.1.0'
    "$work/within/within_static" | grep -Fx 'hasplock 0.1.0'
    [ -e "$work/within/hasplock/lib/libhasplock.so" ]
    [ ! -e "$work/within/hasplock/bin/hasplock" ] && [ ! -e "$work/within/hasplock/docs" ]
}
is_release_by_default() {
    cmake -S "$source" -B "$work/plain" -G Ninja
    grep -Fx CMAKE_BUILD_TYPE:STRING=Release "$work/plain/CMakeCache.txt"
    grep -Fx 'prefix=${pcfiledir}/../..' "$work/plain/src/hasplock.pc"
}
check "add_subdirectory: both libraries link; no command, no man pages" within_another
check "a plain configuration is a release" is_release_by_default

# --- pkg-config
pc() { PKG_CONFIG_PATH=$library/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root pkg-config "$@" hasplock; }
pc_compiles() {
    [ "$(pc --modversion)" = 0.1.0 ]
    # shellcheck disable=SC2046
    gcc "$here/consumer/consumer.c" $(pc --cflags --libs) -o "$work/pc_shared"
    "$work/pc_shared"
}
pc_is_lean() { diff <(echo "-I$root/usr/include -L$library -lhasplock") <(pc --cflags --libs | sed 's/ *$//'); }
pc_of_usr() { diff <(echo -lhasplock) <(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs hasplock |
    sed 's/ *$//'); }
moved() {                                               # installed elsewhere than configured, and moved from there
    cmake --install "$build" --prefix "$work/first"
    mv "$work/first" "$work/second"
    local lib=$work/second/${libdir#/usr/} flags
    flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs hasplock)
    echo "$flags"
    [[ $flags != *"$work/first"* ]]
    # shellcheck disable=SC2086
    gcc "$here/consumer/consumer.c" $flags -o "$work/pc_moved"
    LD_LIBRARY_PATH=$lib "$work/pc_moved"
    cmake -S "$here/consumer" -B "$work/found" -G Ninja "-DCMAKE_PREFIX_PATH=$work/second" \
        -DLIBRARIES=hasplock::hasplock
    cmake --build "$work/found"
}
pc_static() {                                           # as README and hasplock(7) say
    # shellcheck disable=SC2046
    gcc "$here/consumer/consumer.c" $(pc --static --cflags --libs | sed s/-lhasplock/-l:libhasplock.a/) \
        -o "$work/pc_static"
    env -u LD_LIBRARY_PATH "$work/pc_static"
    [[ $(readelf -d "$work/pc_static") != *hasplock* ]]
    grep -F 'pkg-config --static --cflags --libs hasplock | sed s/-lhasplock/-l:libhasplock.a/' "$source/README.md"
}
# The installed sources, by the commands that their readers give.
examples_compile() {
    local example compile
    for example in "$root"/usr/share/doc/hasplock/examples/*; do
        case $example in
        *.cpp) compile="g++ -std=c++17" ;;
        *) compile="gcc -std=c11" ;;
        esac
        # shellcheck disable=SC2046
        $compile -Wall -Wextra -Wpedantic -Werror -pthread "$example" $(pc --cflags --libs) -lev -lsqlite3 \
            -o "$work/example"
    done
    [ -e "$work/example" ]
}
check "pkg-config: a program builds, locks and releases" pc_compiles
check "pkg-config: no flags but our own" pc_is_lean
check "pkg-config: of /usr, no folder is named" pc_of_usr
check "install --prefix, then moved: pkg-config and find_package find it" moved
check "pkg-config --static: the archive links" pc_static
check "each example compiles as plain C11 or C++17 without warnings" examples_compile

# --- the package
makes_a_deb() {
    (cd "$build" && cpack -G DEB)
    dpkg-deb -x "$build"/hasplock_0.1.0_*.deb "$work/deb"
    diff <(cd "$root" && find . ! -type d | sort) <(cd "$work/deb" && find . ! -type d | sort)
}
deb_depends() {
    local depends needed
    depends=$(dpkg-deb -f "$build"/hasplock_0.1.0_*.deb Depends)
    echo "Depends: $depends"
    for needed in libc6 libev4 libhiredis libssl3; do
        grep -F "$needed" <<<"$depends"
    done
    ! grep -F sqlite <<<"$depends"                      # the demo's, which is not in it
}
deb_runs() { LD_LIBRARY_PATH=$work/deb$libdir "$work/deb/usr/bin/hasplock" --version | grep -F 0.1.0; }
check "cpack: the .deb has what install has" makes_a_deb
check "cpack: the .deb depends on the libraries that are needed" deb_depends
check "cpack: its command runs" deb_runs

# --- the demo, which alone needs SQLite
links_no_sqlite() {
    [[ $(readelf -d "$root/usr/bin/hasplock" "$library/libhasplock.so") != *sqlite* ]]
    [ ! -e "$root/usr/bin/hasplock-demo" ]
}
configures_without_sqlite() {                           # pkg-config finds nothing but hiredis
    mkdir "$work/pc"
    cp "$(pkg-config --variable=pcfiledir hiredis)/hiredis.pc" "$work/pc"
    PKG_CONFIG_LIBDIR=$work/pc cmake -S "$source" -B "$work/lean" -G Ninja -DHLK_MAN=OFF
    ! PKG_CONFIG_LIBDIR=$work/pc cmake -S "$source" -B "$work/lean" -DHLK_DEMO=ON 2>"$work/lean.said"
    grep -F 'SQLite is missing' "$work/lean.said"
}
demo_is_found() {
    cmake -S "$source" -B "$build" -DHLK_DEMO=ON
    cmake --build "$build"
    DESTDIR=$work/with-demo cmake --install "$build"
    PATH=/usr/bin:/bin "$work/with-demo/usr/bin/hasplock" demo --help | grep -F 'hasplock demo [options]'
}
check "the installed library and command need no SQLite" links_no_sqlite
check "a machine without SQLite builds all but the demo, which names it" configures_without_sqlite
check "-DHLK_DEMO=ON: the installed hasplock starts the installed demo" demo_is_found
finish
