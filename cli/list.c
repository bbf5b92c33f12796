/* list.c - see list.h. The server gives locks in no order, some twice, so they are collected and sorted first. With
 * --watch two looks are compared. */
#include "list.h"

#include "again.h"
#include "holder.h"
#include "kind.h"
#include "note.h"
#include "say.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define KEYS_MOST 1000000 /* of the server that are looked at: some seconds */

struct row {
    char *name, *holder, *note;
    int64_t count, ttl_ms, waiting;
    int kind; /* as in hlk_listed */
    int64_t number, note_left_ms;
};

struct rows {
    struct row *row;
    size_t n, room, limit;
    bool no_memory;
    bool more;       /* than the limit */
    bool cut;        /* not all keys of the server were looked at */
    int64_t refused; /* keys that this user may not read */
};

static bool has_waits_only(int kind)
{
    return kind == HLK_FOUND_BARRIER || kind == HLK_FOUND_CONDITION;
}

/* A barrier and a condition have keys of their own, so that the same name may be a lock too. */
static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (has_waits_only(x->kind) ? x->kind : 0) - (has_waits_only(y->kind) ? y->kind : 0);
}

static void free_row(struct row *row)
{
    free(row->name);
    free(row->holder);
    free(row->note);
}

static void free_rows(struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        free_row(&rows->row[i]);
    free(rows->row);
}

static void sort_rows(struct rows *rows)
{
    size_t n = 0;
    if (rows->n > 0)
        qsort(rows->row, rows->n, sizeof *rows->row, by_name);
    for (size_t i = 0; i < rows->n; i++) {
        if (n > 0 && by_name(&rows->row[n - 1], &rows->row[i]) == 0)
            free_row(&rows->row[i]);
        else
            rows->row[n++] = rows->row[i];
    }
    rows->n = n;
}

static bool grow(struct rows *rows)
{
    size_t room = rows->room ? 2 * rows->room : 64;
    struct row *row = realloc(rows->row, room * sizeof *row);
    if (!row)
        return false;
    rows->row = row;
    rows->room = room;
    return true;
}

/* One more than the limit is taken: then it is known that there are more. */
static int take(const struct hlk_listed *lock, void *ctx)
{
    struct rows *rows = ctx;
    struct row row = { .name = strdup(lock->name),
                       .holder = strdup(lock->holder),
                       .note = strdup(lock->note),
                       .count = lock->count,
                       .ttl_ms = lock->ttl_ms,
                       .waiting = lock->waiting,
                       .kind = lock->kind,
                       .number = lock->number,
                       .note_left_ms = lock->note_left_ms };
    rows->no_memory = !row.name || !row.holder || !row.note || (rows->n == rows->room && !grow(rows));
    if (rows->no_memory) {
        free_row(&row);
        return 1;
    }
    rows->row[rows->n++] = row;
    if (rows->n > rows->limit)
        sort_rows(rows);
    return rows->n > rows->limit;
}

static void begin_json(struct json *json, const struct options *options, const struct row *row, bool held)
{
    json_begin(json);
    json_string(json, "name", row->name);
    if (options->watch_ms) {
        json_time(json);
        json_bool(json, "held", held);
    }
}

static bool answer_json(const struct options *options, const struct row *row)
{
    struct json json;
    struct note_said said;
    const char *kind = kind_word(row->kind);
    bool number = kind_is_number(row->kind);
    note_read(&said, row->note, row->note_left_ms);
    begin_json(&json, options, row, true);
    if (kind)
        json_string(&json, "kind", kind);
    if (*row->holder) {
        holder_add_json(row->holder, &json);
        json_int(&json, "count", row->count);
        json_int(&json, "ttl_ms", row->ttl_ms);
        note_json(&said, &json);
    }
    if (kind_is_permits(row->kind) || number)
        json_int(&json, number ? "count" : "free", row->number);
    if (!number)
        json_int(&json, "waiting", row->waiting);
    json_end(&json);
    return say_answer(json.line, json.len);
}

/* Behind the rest of the line; "": the holder says nothing. */
static const char *said_text(const struct row *row, char *buf, size_t size)
{
    char held[NOTE_SHOWN], note[2100];
    struct note_said said;
    note_read(&said, row->note, row->note_left_ms);
    note_held(&said, held, sizeof held);
    text_shown(note, sizeof note, said.note);
    snprintf(buf, size, "%s%s%s%s", *held ? "; " : "", held, *note ? "; note: " : "", note);
    return buf;
}

static bool answer_text(const struct row *row)
{
    char line[8192], name[2100], who[1000], ttl[64], waiting[64] = "", held[128], said[4000];
    struct holder holder;
    holder_read(&holder, row->holder);
    text_shown(name, sizeof name, row->name);
    if (has_waits_only(row->kind))
        kind_waiting(row->kind, row->waiting, held, sizeof held);
    else
        kind_held(row->kind, row->count, row->number, held, sizeof held);
    if (row->ttl_ms < 0)
        snprintf(ttl, sizeof ttl, "without end");
    else
        snprintf(ttl, sizeof ttl, "ttl %.1f s", (double)row->ttl_ms / 1000);
    if (row->waiting > 0 && !has_waits_only(row->kind) && !kind_is_number(row->kind))
        snprintf(waiting, sizeof waiting, ", %" PRId64 " waiting", row->waiting);
    int len = *row->holder
                  ? snprintf(line, sizeof line, "%s: %s by %s, %s%s%s\n", name, held,
                             holder_shown(&holder, who, sizeof who), ttl, waiting, said_text(row, said, sizeof said))
                  : snprintf(line, sizeof line, "%s: %s%s\n", name, held, waiting);
    return say_answer(line, (size_t)len);
}

static bool answer_row(const struct options *options, const struct row *row)
{
    return options->json ? answer_json(options, row) : answer_text(row);
}

static bool answer_all(const struct options *options, const struct rows *rows)
{
    bool said = true;
    for (size_t i = 0; said && i < rows->n; i++)
        said = answer_row(options, &rows->row[i]);
    return said;
}

/* What the answer leaves out is said beside it. */
static void say_what_is_missing(const struct options *options, const struct rows *rows)
{
    struct json fields;
    if (rows->refused > 0) {
        say_begin(&fields, "refused");
        json_int(&fields, "keys", rows->refused);
        say_with(&fields, SAY_NOTE, "%" PRId64 " %s are left out: this user may not read them", rows->refused,
                 options->string ? "strings" : "keys");
    }
    if (rows->more || rows->cut) {
        say_begin(&fields, "more");
        json_int(&fields, "shown", (int64_t)rows->n);
        if (rows->more)
            say_with(&fields, SAY_NOTE, "stopped behind %zu locks, and there are more: give a PREFIX, or --limit",
                     rows->limit);
        else
            say_with(&fields, SAY_NOTE, "stopped when %d keys of the server were looked at: give a PREFIX", KEYS_MOST);
    }
}

/* 0, or the exit code of a fault, which was said. The caller frees the rows in both cases. */
static int look(hlk_client *client, const struct options *options, struct rows *rows)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    *rows = (struct rows){ .limit = (size_t)options->limit };
    opts.prefix = options->name;
    opts.max_keys = KEYS_MOST;
    opts.kind = options->string ? HLK_LOCK_STRING : options->numbers ? HLK_LIST_NUMBERS : HLK_LIST_EVERY;
    if (hlk_lock_list(client, &opts, take, rows) != HLK_OK)
        return say_fault();
    if (rows->no_memory) {
        say(SAY_ERROR, "error", "no memory for more than %zu locks", rows->n);
        return EX_OSERR;
    }
    sort_rows(rows);
    rows->refused = opts.refused;
    rows->more = rows->n > rows->limit;
    rows->cut = opts.cursor != 0;
    while (rows->n > rows->limit)
        free_row(&rows->row[--rows->n]);
    return 0;
}

static int list_once(hlk_client *client, const struct options *options)
{
    struct rows rows;
    int code = look(client, options, &rows);
    if (code == 0 && !answer_all(options, &rows))
        code = EX_IOERR;
    if (code == 0)
        say_what_is_missing(options, &rows);
    free_rows(&rows);
    return code;
}

/* --- with --watch */

static bool answer_free(const struct options *options, const struct row *row)
{
    char line[2200], name[2100];
    struct json json;
    if (options->json) {
        begin_json(&json, options, row, false);
        json_end(&json);
        return say_answer(json.line, json.len);
    }
    int len = snprintf(line, sizeof line, "%s: %s\n", text_shown(name, sizeof name, row->name),
                       has_waits_only(row->kind) ? "nobody waits" : "free");
    return say_answer(line, (size_t)len);
}

/* What is only older, or renewed, is the same. */
static bool is_changed(const struct row *before, const struct row *now)
{
    return before->count != now->count || before->waiting != now->waiting || before->kind != now->kind ||
           before->number != now->number || strcmp(before->holder, now->holder) != 0;
}

/* Both are in the order of names. A lock that was not seen may be held if not all were seen. */
static bool answer_changes(const struct options *options, const struct rows *before, const struct rows *now)
{
    bool said = true;
    for (size_t i = 0, k = 0; said && (i < before->n || k < now->n);) {
        int order = i == before->n ? 1 : k == now->n ? -1 : by_name(&before->row[i], &now->row[k]);
        if (order > 0 || (order == 0 && is_changed(&before->row[i], &now->row[k])))
            said = answer_row(options, &now->row[k]);
        else if (order < 0 && !now->more && !now->cut)
            said = answer_free(options, &before->row[i]);
        i += order <= 0;
        k += order >= 0;
    }
    return said;
}

static bool answer_screen(const struct options *options, const struct rows *rows)
{
    static const char nothing[] = "nothing is held\n";
    return again_clear_screen() && (rows->n > 0 ? answer_all(options, rows) : say_answer(nothing, sizeof nothing - 1));
}

/* Until a signal ends us, or a fault. What is missing is said once; on a screen, which is cleared, each time. */
static int watch_list(hlk_client *client, const struct options *options)
{
    bool screen = again_on_screen(options);
    struct rows before = { 0 };
    for (bool first = true;; first = false) {
        struct rows now;
        int code = look(client, options, &now);
        if (code == 0 && !(screen ? answer_screen(options, &now) : answer_changes(options, &before, &now)))
            code = EX_IOERR;
        if (code == 0 && (first || (screen && isatty(STDERR_FILENO))))
            say_what_is_missing(options, &now);
        free_rows(&before);
        before = now;
        if (code != 0) {
            free_rows(&before);
            return code;
        }
        again_pause(options);
    }
}

int list(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    int code = options->watch_ms ? watch_list(client, options) : list_once(client, options);
    hlk_client_close(client);
    return code;
}
