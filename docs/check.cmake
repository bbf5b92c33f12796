# cmake -DTOP=... -P docs/check.cmake: what the pages name is there.
#
#   links and paths          a file of this repository
#   FILE.c: suite.test, ...  a Test(suite, test) of that file; every_kind_KIND.test: a promise of every_promise.h, for a
#                            kind of every_kind.h
#   hlk_..., HLK_...         a name of the public headers (for pages under docs/man and README), or of src/
#   TODO-..., SAFE-...       a test that is still to be named: an error
cmake_minimum_required(VERSION 3.16)
file(GLOB_RECURSE pages RELATIVE ${TOP} ${TOP}/docs/*.md ${TOP}/docs/man/*.scd)
file(GLOB_RECURSE sources ${TOP}/include/*.h ${TOP}/include/*.hpp ${TOP}/src/*.h ${TOP}/src/*.c ${TOP}/cli/*.c
    ${TOP}/tests/model/*.pml)
set(known "")
foreach(source IN LISTS sources)
    file(READ ${source} text)
    string(REGEX MATCHALL "(hlk|HLK)_[A-Za-z0-9_]+" names "${text}")
    list(APPEND known ${names})
endforeach()
list(REMOVE_DUPLICATES known)
list(APPEND known HLK_TEST_ACL hlk_async hlk_inspect hlk_multilock hlk_owner_id)
                                    # of the tests; pages; what is gone and said so

file(READ ${TOP}/tests/integration/every_kind.h kinds)
file(READ ${TOP}/tests/integration/every_promise.h promises)

set(faults 0)
macro(fault page)
    message("${page}: ${ARGN}")
    math(EXPR faults "${faults} + 1")
endmacro()

foreach(page README.md ${pages})
    file(READ ${TOP}/${page} text)
    string(REPLACE ";" "," text "${text}")
    string(REPLACE "[" "<" text "${text}")      # brackets would glue list elements together
    string(REPLACE "]" ">" text "${text}")
    get_filename_component(here ${page} DIRECTORY)

    string(REGEX MATCHALL ">\\([^):]+\\)" links "${text}")
    foreach(link IN LISTS links)
        string(REGEX REPLACE "^>\\(([^)#]+).*\\)$" "\\1" path "${link}")
        if(NOT EXISTS ${TOP}/${here}/${path})
            fault(${page} "no ${path}")
        endif()
    endforeach()

    string(REGEX MATCHALL "(tests|src|lua|docs|bench|include)/[A-Za-z0-9_./]+\\.(cmake|c|h|pml|lua|md)" paths "${text}")
    list(REMOVE_DUPLICATES paths)
    foreach(path IN LISTS paths)
        if(NOT EXISTS ${TOP}/${path})
            fault(${page} "no ${path}")
        endif()
    endforeach()

    string(REGEX REPLACE "\n *" " " text "${text}")         # a claim may go on in the next line
    set(test "[a-z0-9_]+\\.[a-z0-9_]+")
    string(REGEX MATCHALL "tests/[A-Za-z0-9_/]+\\.c: ${test}(, ${test})*" claims "${text}")
    foreach(claim IN LISTS claims)
        string(REGEX REPLACE "^([^:]+): .*" "\\1" path "${claim}")
        string(REGEX REPLACE "^[^:]+: " "" tests "${claim}")
        string(REGEX MATCHALL "[a-z0-9_]+\\.[a-z0-9_]+" tests "${tests}")
        set(code "")
        if(EXISTS ${TOP}/${path})
            file(READ ${TOP}/${path} code)
        endif()
        foreach(test IN LISTS tests)
            string(REPLACE "." ", " pair ${test})
            if(test MATCHES "^every_kind_([a-z_]+)[.]([a-z0-9_]+)$")
                set(shown "is[(]kind, ${CMAKE_MATCH_2}, ")
                if(NOT kinds MATCHES " is[(]${CMAKE_MATCH_1}[)]" OR NOT promises MATCHES "${shown}")
                    fault(${page} "no ${test} in tests/integration/every_promise.h")
                endif()
            elseif(NOT code MATCHES "Test[(]${pair}[,)]")
                fault(${page} "no Test(${pair}) in ${path}")
            endif()
        endforeach()
    endforeach()

    string(REGEX MATCHALL "(hlk|HLK)_[A-Za-z0-9_]+" names "${text}")
    list(REMOVE_DUPLICATES names)
    foreach(name IN LISTS names)
        if(NOT name IN_LIST known AND NOT name MATCHES "_$")
            fault(${page} "unknown name ${name}")
        endif()
    endforeach()

    string(REGEX MATCHALL "(TODO|SAFE)-[A-Za-z0-9.]+" open "${text}")
    foreach(mark IN LISTS open)
        fault(${page} "open: ${mark}")
    endforeach()
endforeach()
if(faults)
    message(FATAL_ERROR "docs: ${faults} faults")
endif()
message("docs: every name is there")
