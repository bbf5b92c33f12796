/* doctor.c - see doctor.h. The library examines; here is only how it is said. */
#include "doctor.h"

#include "say.h"
#include "url.h"
#include "wrap.h"

#include <hasplock/hasplock.h>

#include <stdio.h>
#include <sysexits.h>

#define LEVEL_COLUMNS 7
#define INDENT (LEVEL_COLUMNS + 2)
#define URL_MOST 4096

static const char *const level_names[] = { [HLK_FINDING_OK] = "ok",
                                           [HLK_FINDING_NOTE] = "note",
                                           [HLK_FINDING_WARNING] = "warning",
                                           [HLK_FINDING_PROBLEM] = "problem" };

struct report {
    const struct options *options;
    int n[HLK_FINDING_PROBLEM + 1]; /* of each level */
    unsigned master, masters;       /* of several: which one is examined, from 1; else 0 */
    bool named;                     /* its line is printed */
    bool failed;                    /* stdout took no more */
};

static bool print_json(const struct report *report, const struct hlk_finding *finding)
{
    struct json json;
    json_begin(&json);
    if (report->master)
        json_int(&json, "master", report->master);
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
static bool print_text(const struct hlk_finding *finding)
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

static bool print_master(struct report *report)
{
    char line[64];
    int len = snprintf(line, sizeof line, "master %u of %u\n", report->master, report->masters);
    if (report->named || !report->master || report->options->json)
        return true;
    report->named = true;
    return say_answer(line, (size_t)len);
}

static void print_finding(const struct hlk_finding *finding, void *ctx)
{
    struct report *report = ctx;
    const struct options *options = report->options;
    bool left_out = options->verbosity < 0 && finding->level < HLK_FINDING_WARNING && !options->json;
    report->n[finding->level]++;
    if (!report->failed && !left_out)
        report->failed = !print_master(report) || !(options->json ? print_json(report, finding) : print_text(finding));
}

static bool print_sum(const struct report *report, int code)
{
    char line[128];
    struct json json;
    if (report->options->json) {
        json_begin(&json);
        json_int(&json, "ok", report->n[HLK_FINDING_OK]);
        json_int(&json, "notes", report->n[HLK_FINDING_NOTE]);
        json_int(&json, "warnings", report->n[HLK_FINDING_WARNING]);
        json_int(&json, "problems", report->n[HLK_FINDING_PROBLEM]);
        json_int(&json, "code", code);
        json_end(&json);
        return say_answer(json.line, json.len);
    }
    int len = snprintf(line, sizeof line, "%d ok, %d note%s, %d warning%s, %d problem%s\n", report->n[HLK_FINDING_OK],
                       report->n[HLK_FINDING_NOTE], report->n[HLK_FINDING_NOTE] == 1 ? "" : "s",
                       report->n[HLK_FINDING_WARNING], report->n[HLK_FINDING_WARNING] == 1 ? "" : "s",
                       report->n[HLK_FINDING_PROBLEM], report->n[HLK_FINDING_PROBLEM] == 1 ? "" : "s");
    return report->options->verbosity < 0 || say_answer(line, (size_t)len);
}

/* 0, or the exit code of a fault, which was said. */
static int diagnose(const char *url, const struct options *options, struct report *report)
{
    struct hlk_client_opts client = options_client(options);
    struct hlk_diagnose_opts opts = HLK_DIAGNOSE_OPTS_INIT;
    client.watchdog_ms = options->lease_ms;
    client.flags = options->spin ? HLK_OPEN_NO_PUBSUB : 0;
    opts.client = &client;
    opts.prefix = options->name;
    opts.flags = (options->fair ? HLK_DIAGNOSE_FAIR : 0) | (options->fenced ? HLK_DIAGNOSE_FENCED : 0) |
                 (options->string ? HLK_DIAGNOSE_STRING : 0);
    return hlk_diagnose(url, &opts, print_finding, report) == HLK_OK ? 0 : say_fault();
}

/* A minority may be away, which is a problem; without a majority there is no lock. */
static int diagnose_masters(const struct options *options, struct report *report)
{
    char url[URL_MOST];
    unsigned away = 0;
    int code = 0;
    while (url_of_master(options->url, report->masters, url, sizeof url))
        report->masters++;
    for (unsigned i = 0; i < report->masters && code != EX_USAGE; i++) {
        report->master = i + 1;
        report->named = false;
        int fault = diagnose(url_of_master(options->url, i, url, sizeof url), options, report);
        code = fault ? fault : code;
        away += fault != 0;
    }
    return code == EX_USAGE || 2 * away > report->masters ? code : 0;
}

int doctor(const struct options *options)
{
    struct report report = { .options = options };
    int code =
        url_has_masters(options->url) ? diagnose_masters(options, &report) : diagnose(options->url, options, &report);
    if (code == 0)
        code = report.n[HLK_FINDING_PROBLEM] ? 2 : report.n[HLK_FINDING_WARNING] ? 1 : 0;
    if (report.failed || (code != EX_USAGE && !print_sum(&report, code)))
        return EX_IOERR;
    return code;
}
