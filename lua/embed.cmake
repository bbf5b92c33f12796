# embed.cmake - turns lua/*.lua into one C file: the table behind src/script/table.h.
#
#   cmake -DDIR=lua -DNAMES=lock_acquire|lock_end|... -DOUT=table.c -P embed.cmake        ("|": a ";" would be split)
#
# A line `--# part_name` is replaced by lua/part_name.lua, which several scripts share; the whole text is left beside
# OUT, too, for the linter. Bytes, not string literals: no quoting, no limit on literals. The SHA-1 is that of the exact
# bytes, so it is what SCRIPT LOAD answers and nothing is hashed at run time. Nothing is stripped, for the same reason.
cmake_minimum_required(VERSION 3.18)

get_filename_component(beside "${OUT}" DIRECTORY)
set(texts "")
set(rows "")
string(REPLACE "|" ";" names "${NAMES}")
file(GLOB parts "${DIR}/part_*.lua")
foreach(name IN LISTS names)
    file(READ "${DIR}/${name}.lua" text)
    foreach(part IN LISTS parts)
        get_filename_component(part_name "${part}" NAME_WE)
        file(READ "${part}" part_text)
        string(REPLACE "--# ${part_name}\n" "${part_text}" text "${text}")
    endforeach()
    file(WRITE "${beside}/${name}.lua" "${text}")
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
    string(APPEND texts "static const unsigned char ${name}[] = {\n    ${bytes}0x00\n};\n\n")
    string(APPEND rows
        "    [HLK_SCRIPT_${upper}] = { \"${name}\", (const char *)${name}, ${length},\n"
        "        \"${sha1}\" },\n")
endforeach()

file(WRITE "${OUT}" "/* Made from lua/ by embed.cmake. */\n#include \"script/table.h\"\n\n${texts}"
    "const struct hlk_script_text hlk_script_table[HLK_SCRIPT_COUNT] = {\n${rows}};\n")
