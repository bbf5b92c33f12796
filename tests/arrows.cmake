# arrows.cmake - fails on an #include that points up. cmake -DTOP=<the repository> -P arrows.cmake
#
#   cli -> include only
#   { quorum | multilock | semaphore } -> api -> acquire -> handle -> client
#   diagnose -> client -> { kinds | lease } -> node -> wait -> script -> net -> base
#
# A folder may include itself, everything below it and the public headers. kinds and lease do not know each other, and
# lease uses of wait only what a node has. The composition root has no folder: client.c builds the parts of every layer,
# client.h is for itself and the layers above, client_opts.h for those that open one.
cmake_minimum_required(VERSION 3.16)

set(below_base "")
set(below_net base)
set(below_script net base)
set(below_wait script net base)
set(below_node wait script net base)
set(below_lease node wait script net base)
set(below_kinds node wait script net base)
set(below_client kinds lease node wait script net base)
set(below_diagnose client kinds lease node wait script net base)
set(below_handle client kinds lease node wait script net base)
set(below_acquire handle ${below_handle})
set(below_api acquire ${below_acquire})
set(below_multilock api ${below_api})
set(below_semaphore api ${below_api})
set(below_quorum api ${below_api})
set(below_cli "")
set(below_demo cli)     # how the command says things

# hasplock.h and its parts may be included as <hasplock/x.h> or "hasplock/x.h" from anywhere; other <...> are not ours.
function(check file layer)
    file(STRINGS ${TOP}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*\"")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*" "\\1" header "${line}")
        if(header MATCHES "^hasplock/")
            continue()
        elseif(layer STREQUAL "cli" OR layer STREQUAL "demo")
            set(to "${header}")
            if(NOT header MATCHES "/" AND EXISTS ${TOP}/${layer}/${header})
                set(to ${layer})
            elseif(NOT header MATCHES "/" AND EXISTS ${TOP}/cli/${header})
                set(to cli)
            endif()
        elseif(header MATCHES "^client(_opts)?.h$")
            set(to client)
        elseif(header MATCHES "^([a-z]+)/[^/]+$")
            set(to ${CMAKE_MATCH_1})
        else()
            set(to "a name without its folder")
        endif()
        if(NOT to STREQUAL layer AND NOT to IN_LIST below_${layer})
            message(SEND_ERROR "${file} includes \"${header}\"; ${layer} may know only itself, the public headers, and "
                "(${below_${layer}})")
            math(EXPR wrong "${wrong} + 1")
        endif()
        math(EXPR arrows "${arrows} + 1")
    endforeach()
    set(wrong ${wrong} PARENT_SCOPE)
    set(arrows ${arrows} PARENT_SCOPE)
endfunction()

set(wrong 0)
set(arrows 0)
foreach(layer base net script wait node lease kinds client handle acquire api multilock semaphore quorum diagnose cli
        demo)
    if(layer STREQUAL "client")
        file(GLOB files RELATIVE ${TOP} ${TOP}/src/*.[ch])
    elseif(layer STREQUAL "cli" OR layer STREQUAL "demo")
        file(GLOB files RELATIVE ${TOP} ${TOP}/${layer}/*.[ch])
    else()
        file(GLOB files RELATIVE ${TOP} ${TOP}/src/${layer}/*.[ch])
    endif()
    foreach(file IN LISTS files)
        check(${file} ${layer})
    endforeach()
endforeach()

file(GLOB folders RELATIVE ${TOP}/src ${TOP}/src/*)
foreach(folder IN LISTS folders)
    if(IS_DIRECTORY ${TOP}/src/${folder} AND NOT DEFINED below_${folder})
        message(SEND_ERROR "src/${folder} has no place among the layers")
        math(EXPR wrong "${wrong} + 1")
    endif()
endforeach()
if(arrows EQUAL 0)
    message(FATAL_ERROR "no includes found below ${TOP}: not a look at the sources")
endif()
message(STATUS "${arrows} includes looked at, ${wrong} point up")
