# embed.cmake - turns lua/*.lua into one C file, the table behind src/script/table.h, and names.h beside it: an
# enumerator for each script, in the order of their names.
#
#   cmake -DDIR=lua -DOUT=table.c -P embed.cmake
#
# A line `--# include_name` is replaced by lua/include_name.lua, which several scripts share; that text is left beside
# OUT, too, for the linter. Without its comments and its indentation it is what is sent: half as long, for slow links.
# Bytes, not string literals: no quoting, no limit on literals. The SHA-1 is that of these bytes, so it is what the
# server computes and nothing is hashed at run time.
#
# There is a second table for clusters with sharded pub/sub. In its scripts a message goes by SPUBLISH, subscribers are
# counted by PUBSUB SHARDNUMSUB, and a client has an inbox for each lock, in the lock's slot: "hasplock_inbox:{N}:<C>".
cmake_minimum_required(VERSION 3.18)

get_filename_component(beside "${OUT}" DIRECTORY)
set(texts "")
set(rows "")
set(sharded_rows "")
set(numbers "")

# ARRAY has the bytes of text; row is its line in a table.
function(embed array name text)
    string(SHA1 sha1 "${text}")
    string(HEX "${text}" hex)
    string(LENGTH "${hex}" digits)
    math(EXPR length "${digits} / 2")
    if(length EQUAL 0)
        message(FATAL_ERROR "lua/${name}.lua is empty")
    endif()
    string(REGEX REPLACE "(................................)" "\\1\n    " hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(TOUPPER "${name}" upper)
    set(texts "${texts}static const unsigned char ${array}[] = {\n    ${bytes}0x00\n};\n\n" PARENT_SCOPE)
    set(row "    [HLK_SCRIPT_${upper}] = { \"${name}\", (const char *)${array}, ${length},\n        \"${sha1}\" },\n"
        PARENT_SCOPE)
endfunction()

file(GLOB includes "${DIR}/include_*.lua")
file(GLOB scripts "${DIR}/*.lua")
list(REMOVE_ITEM scripts ${includes})
list(SORT scripts)
set(tag "(string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')")
foreach(script IN LISTS scripts)
    get_filename_component(name "${script}" NAME_WE)
    file(READ "${script}" text)
    foreach(include IN LISTS includes)
        get_filename_component(include_name "${include}" NAME_WE)
        file(READ "${include}" include_text)
        string(REPLACE "--# ${include_name}\n" "${include_text}" text "${text}")
    endforeach()
    file(WRITE "${beside}/${name}.lua" "${text}")
    string(FIND "${text}" " ]]\n" header)
    if(header EQUAL -1)
        message(FATAL_ERROR "lua/${name}.lua does not begin with --[[ what it does ]]")
    endif()
    math(EXPR header "${header} + 3")
    string(SUBSTRING "${text}" ${header} -1 text)
    string(REGEX REPLACE "\n *--[^\n]*" "" text "${text}")
    string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
    string(REGEX REPLACE "^\n" "" text "${text}")
    embed(${name} ${name} "${text}")
    string(APPEND rows "${row}")
    string(REPLACE "'publish'" "'spublish'" text "${text}")
    string(REPLACE "'numsub'" "'shardnumsub'" text "${text}")
    string(REPLACE "'hasplock_inbox:' .. client" "'hasplock_inbox:' .. ${tag} .. ':' .. client" text "${text}")
    embed(${name}_sharded ${name} "${text}")
    string(APPEND sharded_rows "${row}")
    string(TOUPPER "${name}" upper)
    string(APPEND numbers "    HLK_SCRIPT_${upper},\n")
endforeach()

file(WRITE "${OUT}" "/* Made from lua/ by embed.cmake. */\n#include \"script/table.h\"\n\n${texts}"
    "const struct hlk_script_text hlk_script_table[HLK_SCRIPT_COUNT] = {\n${rows}};\n\n"
    "const struct hlk_script_text hlk_script_sharded_table[HLK_SCRIPT_COUNT] = {\n${sharded_rows}};\n")
file(WRITE "${beside}/names.h" "/* Made from lua/ by embed.cmake. */\n#ifndef HLK_SCRIPT_NAMES_H\n"
    "#define HLK_SCRIPT_NAMES_H\n\nenum hlk_script {\n${numbers}    HLK_SCRIPT_COUNT\n};\n\n#endif\n")
