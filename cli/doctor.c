/* doctor.c - see doctor.h. The library examines; here is only how it is said. */
#include "doctor.h"

#include "say.h"
#include "wrap.h"

#include <hasplock/hasplock.h>

#include <stdio.h>
#include <sysexits.h>

#define LEVEL_COLUMNS 7
#define INDENT (LEVEL_COLUMNS + 2)

static const char *const level_names[] = { [HLK_FINDING_OK] = "ok",
                                           [HLK_FINDING_NOTE] = "note",
                                           [HLK_FINDING_WARNING] = "warning",
                                           [HLK_FINDING_PROBLEM] = "problem" };

struct told {
    const struct options *options;
    int n[HLK_FINDING_PROBLEM + 1]; /* of each level */
    bool failed;                    /* stdout took no more */
};

static bool tell_json(const struct hlk_finding *finding)
{
    struct json json;
    json_begin(&json);
    json_string(&json, "area", finding->area);
    json_string(&json, "level", level_names[finding->level]);
    json_string(&json, "measured", finding->measured);
    json_string(&json, "meaning", finding->meaning);
    json_string(&json, "advice", finding->advice);
    json_end(&json);
    return say_answer(json.line, json.len);
}

/* problem  eviction: maxmemory 1.0 MB, policy allkeys-lru
 *          When memory is short ...
 *          CONFIG SET ... */
static bool tell_text(const struct hlk_finding *finding)
{
    static char first[2048], text[65536];
    snprintf(first, sizeof first, "%s: %s", finding->area, finding->measured);
    size_t len = wrap(text, sizeof text, first, INDENT);
    int level = snprintf(first, sizeof first, "%-*s", LEVEL_COLUMNS, level_names[finding->level]);
    for (int i = 0; i < level; i++)
        text[i] = first[i];
    len += wrap(text + len, sizeof text - len, finding->meaning, INDENT);
    len += wrap(text + len, sizeof text - len, finding->advice, INDENT);
    return say_answer(text, len);
}

static void tell(const struct hlk_finding *finding, void *ctx)
{
    struct told *told = ctx;
    const struct options *options = told->options;
    bool left_out = options->verbosity < 0 && finding->level < HLK_FINDING_WARNING && !options->json;
    told->n[finding->level]++;
    if (!told->failed && !left_out)
        told->failed = !(options->json ? tell_json(finding) : tell_text(finding));
}

static bool tell_sum(const struct told *told, int code)
{
    char line[128];
    struct json json;
    if (told->options->json) {
        json_begin(&json);
        json_int(&json, "ok", told->n[HLK_FINDING_OK]);
        json_int(&json, "notes", told->n[HLK_FINDING_NOTE]);
        json_int(&json, "warnings", told->n[HLK_FINDING_WARNING]);
        json_int(&json, "problems", told->n[HLK_FINDING_PROBLEM]);
        json_int(&json, "code", code);
        json_end(&json);
        return say_answer(json.line, json.len);
    }
    int len = snprintf(line, sizeof line, "%d ok, %d note%s, %d warning%s, %d problem%s\n", told->n[HLK_FINDING_OK],
                       told->n[HLK_FINDING_NOTE], told->n[HLK_FINDING_NOTE] == 1 ? "" : "s",
                       told->n[HLK_FINDING_WARNING], told->n[HLK_FINDING_WARNING] == 1 ? "" : "s",
                       told->n[HLK_FINDING_PROBLEM], told->n[HLK_FINDING_PROBLEM] == 1 ? "" : "s");
    return told->options->verbosity < 0 || say_answer(line, (size_t)len);
}

static enum hlk_status diagnose(const struct options *options, struct told *told)
{
    struct hlk_client_opts client = options_client(options);
    struct hlk_diagnose_opts opts = HLK_DIAGNOSE_OPTS_INIT;
    client.watchdog_ms = options->lease_ms;
    client.flags = options->spin ? HLK_OPEN_NO_PUBSUB : 0;
    opts.client = &client;
    opts.prefix = options->name;
    opts.flags = (options->fair ? HLK_DIAGNOSE_FAIR : 0) | (options->fenced ? HLK_DIAGNOSE_FENCED : 0) |
                 (options->string ? HLK_DIAGNOSE_STRING : 0);
    return hlk_diagnose(options->url, &opts, tell, told);
}

int doctor(const struct options *options)
{
    struct told told = { .options = options };
    int code = diagnose(options, &told) != HLK_OK ? say_fault()
               : told.n[HLK_FINDING_PROBLEM]      ? 2
               : told.n[HLK_FINDING_WARNING]      ? 1
                                                  : 0;
    if (told.failed || (code != EX_USAGE && !tell_sum(&told, code)))
        return EX_IOERR;
    return code;
}
