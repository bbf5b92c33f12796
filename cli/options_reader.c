#include "options_reader.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>

void options_complain(struct reader *r, const char *format, ...)
{
    va_list args;
    if (r->result == PARSED_WRONG)
        return;
    r->result = PARSED_WRONG;
    r->complaint_about = r->options->name;
    va_start(args, format);
    vsnprintf(r->complaint, sizeof r->complaint, format, args);
    va_end(args);
}

bool options_take_prefix(const struct options *options)
{
    return options->command == COMMAND_LIST || options->command == COMMAND_DOCTOR;
}

void options_refuse_word(struct reader *r, const char *word)
{
    char shown[64];
    options_complain(r, "one %s, and no \"%s\" behind it", options_take_prefix(r->options) ? "PREFIX" : "NAME",
                     text_shown(shown, sizeof shown, word));
}
