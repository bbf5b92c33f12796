/* wrap.c - see wrap.h. Bytes are counted, not columns: rather too short. */
#include "wrap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 80

struct lines {
    char *out;
    size_t size, len, column;
    int indent;
    const char *head; /* what each line begins with */
    int head_len;
};

static void put(struct lines *lines, const char *bytes, size_t len)
{
    size_t room = lines->size - 1 - lines->len;
    len = len < room ? len : room;
    memcpy(lines->out + lines->len, bytes, len);
    lines->len += len;
    lines->column += len;
    lines->out[lines->len] = '\0';
}

static void begin_line(struct lines *lines)
{
    for (int i = 0; i < lines->indent; i++)
        put(lines, " ", 1);
    put(lines, lines->head, (size_t)lines->head_len);
}

static void end_line(struct lines *lines)
{
    put(lines, "\n", 1);
    lines->column = 0;
}

/* "ACL SETUSER USER"; 0: it is another text. */
static int command_head(const char *text)
{
    int len = 0;
    (void)sscanf(text, "ACL SETUSER %*s%n", &len);
    return len;
}

static void put_word(struct lines *lines, const char *word, size_t len)
{
    size_t begin = (size_t)(lines->indent + lines->head_len);
    bool first = lines->column <= begin && lines->head_len == 0;
    if (lines->column > begin && lines->column + 1 + len > COLUMNS) {
        end_line(lines);
        begin_line(lines);
        first = lines->head_len == 0;
    }
    if (!first)
        put(lines, " ", 1);
    put(lines, word, len);
}

static void put_paragraph(struct lines *lines, const char *text, size_t len)
{
    const char *end = text + len;
    lines->head_len = command_head(text);
    lines->head = text;
    begin_line(lines);
    for (const char *at = text + lines->head_len; at < end;) {
        at += strspn(at, " ");
        size_t word = strcspn(at, " \n");
        if (at < end && word > 0)
            put_word(lines, at, word);
        at += word + (at[word] == '\n');
    }
    end_line(lines);
}

size_t wrap(char *out, size_t size, const char *text, int indent)
{
    struct lines lines = { .out = out, .size = size, .indent = indent };
    out[0] = '\0';
    while (*text) {
        size_t len = strcspn(text, "\n");
        put_paragraph(&lines, text, len);
        text += len + (text[len] == '\n');
    }
    return lines.len;
}
