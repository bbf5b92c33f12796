# cmake -DPROGRAM=FILE -DURL=URL -DSAYS=REGEX [-DINPUT=WORDS] -P example.cmake - runs an example, with a line of stdin
# for each word. It must end with 0, and SAYS must match all of stdout, where " / " stands for each end of a line.
string(REPLACE " " "\n" lines "${INPUT}\n")
set(stdin ${PROGRAM}.stdin)
file(WRITE ${stdin} "${lines}")
execute_process(COMMAND ${PROGRAM} ${URL} INPUT_FILE ${stdin} OUTPUT_VARIABLE said RESULT_VARIABLE code)
string(REPLACE "\n" " / " line "${said}")
string(STRIP "${line}" line)
if(NOT code EQUAL 0 OR NOT line MATCHES "^${SAYS}$")
    message(FATAL_ERROR "exit code ${code}, not 0 with what matches\n${SAYS}\n\n${said}")
endif()
