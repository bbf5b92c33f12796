#include "diagnose/finding.h"

#include "base/debug.h"

void hlk_found_init(struct hlk_found *found)
{
    found->level = HLK_FINDING_OK;
    found->applies = true;
    hlk_text_init(&found->measured, found->texts[0], sizeof found->texts[0]);
    hlk_text_init(&found->meaning, found->texts[1], sizeof found->texts[1]);
    hlk_text_init(&found->advice, found->advice_text, sizeof found->advice_text);
}

static void replace_text(struct hlk_text *text, const char *format, va_list args)
{
    HLK_DEBUG_ASSERT(text->buf && text->size > 0);
    hlk_text_init(text, text->buf, text->size);
    hlk_text_vadd(text, format, args);
}

void hlk_found_set(struct hlk_found *found, enum hlk_finding_level level, const char *measured, ...)
{
    va_list args;
    found->level = level;
    va_start(args, measured);
    replace_text(&found->measured, measured, args);
    va_end(args);
}

void hlk_found_meaning(struct hlk_found *found, const char *meaning, ...)
{
    va_list args;
    va_start(args, meaning);
    replace_text(&found->meaning, meaning, args);
    va_end(args);
}

void hlk_found_advice(struct hlk_found *found, const char *advice, ...)
{
    va_list args;
    va_start(args, advice);
    replace_text(&found->advice, advice, args);
    va_end(args);
}
