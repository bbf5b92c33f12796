/* list.c - see list.h. The server gives locks in no order, some twice, so they are collected and sorted first. */
#include "list.h"

#include "holder.h"
#include "say.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define KEYS_MOST 1000000 /* of the server that are looked at: some seconds */

struct row {
    char *name, *holder;
    int64_t count, ttl_ms, waiting;
};

struct rows {
    struct row *row;
    size_t n, room, limit;
    bool no_memory;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void free_row(struct row *row)
{
    free(row->name);
    free(row->holder);
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
    struct row row = { strdup(lock->name), strdup(lock->holder), lock->count, lock->ttl_ms, lock->waiting };
    rows->no_memory = !row.name || !row.holder || (rows->n == rows->room && !grow(rows));
    if (rows->no_memory) {
        free_row(&row);
        return 1;
    }
    rows->row[rows->n++] = row;
    if (rows->n > rows->limit)
        sort_rows(rows);
    return rows->n > rows->limit;
}

static bool answer_json(const struct row *row, const struct holder *holder)
{
    struct json json;
    json_begin(&json);
    json_string(&json, "name", row->name);
    holder_json(holder, &json);
    json_int(&json, "count", row->count);
    json_int(&json, "ttl_ms", row->ttl_ms);
    json_int(&json, "waiting", row->waiting);
    json_end(&json);
    return say_answer(json.line, json.len);
}

static bool answer_text(const struct row *row, const struct holder *holder)
{
    char line[4096], name[2100], who[1000], ttl[64], waiting[64] = "";
    text_shown(name, sizeof name, row->name);
    if (row->ttl_ms < 0)
        snprintf(ttl, sizeof ttl, "without end");
    else
        snprintf(ttl, sizeof ttl, "ttl %.1f s", (double)row->ttl_ms / 1000);
    if (row->waiting > 0)
        snprintf(waiting, sizeof waiting, ", %" PRId64 " waiting", row->waiting);
    int len = snprintf(line, sizeof line, "%s: held by %s, %s%s\n", name, holder_shown(holder, who, sizeof who), ttl,
                       waiting);
    return say_answer(line, (size_t)len);
}

static bool answer(const struct options *options, const struct rows *rows)
{
    bool said = true;
    for (size_t i = 0; said && i < rows->n && i < rows->limit; i++) {
        struct holder holder;
        holder_read(&holder, rows->row[i].holder);
        said = options->json ? answer_json(&rows->row[i], &holder) : answer_text(&rows->row[i], &holder);
    }
    return said;
}

/* What the answer leaves out is said beside it. */
static void say_what_is_missing(const struct rows *rows, const struct hlk_list_opts *opts)
{
    struct json fields;
    bool strings = opts->kind == HLK_LOCK_STRING;
    if (opts->refused > 0) {
        say_begin(&fields, "refused");
        json_int(&fields, "keys", opts->refused);
        say_with(&fields, SAY_NOTE, "%" PRId64 " %s are left out: this user may not read them", opts->refused,
                 strings ? "strings" : "hashes");
    }
    if (rows->n > rows->limit || opts->cursor != 0) {
        say_begin(&fields, "more");
        json_int(&fields, "shown", (int64_t)(rows->n < rows->limit ? rows->n : rows->limit));
        if (rows->n > rows->limit)
            say_with(&fields, SAY_NOTE, "stopped behind %zu locks, and there are more: give a PREFIX, or --limit",
                     rows->limit);
        else
            say_with(&fields, SAY_NOTE, "stopped when %d keys of the server were looked at: give a PREFIX", KEYS_MOST);
    }
}

static int list_rows(hlk_client *client, const struct options *options, struct rows *rows)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    opts.prefix = options->name;
    opts.max_keys = KEYS_MOST;
    opts.kind = options->string ? HLK_LOCK_STRING : 0;
    if (hlk_lock_list(client, &opts, take, rows) != HLK_OK)
        return say_fault();
    if (rows->no_memory) {
        say(SAY_ERROR, "error", "no memory for more than %zu locks", rows->n);
        return EX_OSERR;
    }
    sort_rows(rows);
    if (!answer(options, rows))
        return EX_IOERR;
    say_what_is_missing(rows, &opts);
    return 0;
}

int list(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    struct rows rows = { .limit = (size_t)options->limit };
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    int code = list_rows(client, options, &rows);
    free_rows(&rows);
    hlk_client_close(client);
    return code;
}
