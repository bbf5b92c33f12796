/* demo_report.c - figures, tables, the verdict, each as text and as JSON. */
#include "demo_report.h"
#include "demo_stats.h"
#include "demo_stock.h"
#include "demo_text.h"
#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define WORD(n) demo_number((char[DEMO_WORD]){ 0 }, (n))
#define LENGTH(ns) demo_length((char[DEMO_WORD]){ 0 }, (ns))

bool demo_result_read(const struct demo_run *run, struct demo_result *result)
{
    const struct demo_order *order = &run->shared->order;
    char error[256];
    struct demo_stock *stock = demo_stock_open(order->stock, error, sizeof error);
    bool ok = stock && demo_stock_read(stock, &result->left) && demo_stock_sales(stock, &result->sales);

    if (!ok)
        say(SAY_ERROR, "error", "cannot read the stock: %s", stock ? demo_stock_error(stock) : error);
    demo_stock_close(stock);
    result->items = order->items;
    result->took_ns = run->ended_ns - run->began_ns;
    result->lost_updates = result->sales - (result->items - result->left);
    result->oversold = result->sales > result->items ? result->sales - result->items : 0;
    return ok;
}

static void report_phase_json(struct demo_view *view, const struct demo_run *run, const struct demo_result *r)
{
    struct json fields;
    demo_view_fields(view, &fields, "phase_end");
    json_bool(&fields, "locked", run->shared->order.locked);
    json_int(&fields, "took_ms", r->took_ns / 1000000);
    json_int(&fields, "items", r->items);
    json_int(&fields, "sold", r->sales);
    json_int(&fields, "stock_left", r->left);
    json_int(&fields, "lost_updates", r->lost_updates);
    json_int(&fields, "oversold", r->oversold);
    demo_view_event(view, &fields, "%s", "");
}

void demo_report_phase(struct demo_view *view, const struct demo_run *run, const struct demo_result *r)
{
    bool hurt = r->lost_updates != 0;
    const char *on = demo_on(view, hurt ? 'b' : 'g'), *off = demo_off(view);
    char ends[96];

    if (view->mode == DEMO_JSON) {
        report_phase_json(view, run, r);
        return;
    }
    if (r->oversold)
        snprintf(ends, sizeof ends, "oversold by %s", WORD(r->oversold));
    else if (hurt)
        snprintf(ends, sizeof ends, "%s of them the stock knows nothing of", WORD(r->lost_updates));
    else
        snprintf(ends, sizeof ends, "%s", r->left ? "sold and left add up" : "sold exactly what there was");
    demo_view_line(view, "   %6.2f s  %s items were there, %s were sold, the stock says %s are left",
                   (double)r->took_ns / 1e9, WORD(r->items), WORD(r->sales), WORD(r->left));
    demo_view_more(view, "%slost updates %s: %s%s", on, WORD(r->lost_updates), ends, off);
}

static const char *process_fate(const struct demo_run *run, int process)
{
    const struct demo_accident *accidents = run->shared->accidents;
    static const char *const fates[] = { "", " killed", " stopped", " both" };
    int fate = 0;

    for (int kind = 0; kind < DEMO_ACCIDENTS; kind++)
        if (atomic_load(&accidents[kind].state) >= DEMO_HIT &&
            accidents[kind].row / run->shared->order.threads == process)
            fate |= 1 << kind;
    return fates[fate];
}

static void report_tally(struct demo_view *view, const struct demo_run *run, int process, const struct demo_tally *t,
                         int64_t whole_ns)
{
    char name[64];
    double share = whole_ns ? (double)t->held_ns * 100 / (double)whole_ns : 0;
    struct json fields;

    if (view->mode == DEMO_JSON) {
        demo_view_fields(view, &fields, process < 0 ? "all_holders" : "holder");
        if (process >= 0) {
            json_int(&fields, "process", process + 1);
            json_int(&fields, "pid", run->first_pid[process]);
        }
        json_int(&fields, "holds", t->holds);
        json_int(&fields, "sold", t->sold);
        json_int(&fields, "held_us", t->held_ns / 1000);
        json_int(&fields, "held_longest_us", t->held_longest_ns / 1000);
        json_int(&fields, "wait_p50_us", t->wait_p50_ns / 1000);
        json_int(&fields, "wait_p99_us", t->wait_p99_ns / 1000);
        json_int(&fields, "wait_longest_us", t->wait_longest_ns / 1000);
        json_int(&fields, "waits_met_accident", t->waits_met);
        demo_view_event(view, &fields, "%s", "");
        return;
    }
    if (process < 0)
        snprintf(name, sizeof name, "all");
    else
        snprintf(name, sizeof name, "process %d", process + 1);
    demo_view_line(view, "  %-10s %6s %8s %5.0f %% %8s %8s %8s %8s%s%s%s", name, WORD(t->holds), LENGTH(t->held_ns),
                   share, LENGTH(t->held_longest_ns), LENGTH(t->wait_p50_ns), LENGTH(t->wait_p99_ns),
                   LENGTH(t->wait_longest_ns), demo_on(view, 'w'), process_fate(run, process), demo_off(view));
}

static bool report_holders(struct demo_view *view, const struct demo_run *run)
{
    struct demo_tally all, one;
    int64_t whole_ns = run->ended_ns - run->began_ns;

    demo_view_line(view, "\n%sWho held it  %6s %8s %7s %8s %8s %8s %8s%s", demo_on(view, 's'), "holds", "held",
                   "of time", "max held", "wait p50", "wait p99", "max wait", demo_off(view));
    for (int i = 0; i < run->shared->order.processes; i++) {
        if (!demo_tally_process(run->shared, i, &one))
            return false;
        report_tally(view, run, i, &one, whole_ns);
    }
    if (!demo_tally_process(run->shared, -1, &all))
        return false;
    report_tally(view, run, -1, &all, whole_ns);
    demo_view_line(view, "  %sp50, p99 without the %d waits that met the killed or the stopped holder%s",
                   demo_on(view, 'd'), all.waits_met, demo_off(view));
    return true;
}

/* What the late write would have done without the check of the lease. */
static void report_late_write(struct demo_view *view, const struct demo_run *run)
{
    const struct demo_accident *a = &run->shared->accidents[DEMO_STOP];
    int wrong = a->stock_read - 1 - a->stock_found;

    if (atomic_load(&a->state) != DEMO_AWAKE)
        return;
    demo_view_line(view, "\n%sThe stopped holder%s woke with %" PRId64 " ms of lease left and a stock read %s ago.",
                   demo_on(view, 's'), demo_off(view), a->left_ms, LENGTH(a->awake_ns - a->hit_ns));
    if (wrong > 0)
        demo_view_line(view, "  Its write would have put %s sold items back on the shelf.", WORD(wrong));
    demo_view_line(view, "  No lease lock can stop such a write: the holder asks hlk_lock_left_ms() before");
    demo_view_line(view, "  each of its writes, or the store checks a fencing token.");
}

/* Holds that began after a master was killed. */
static int holds_after_kill(const struct demo_run *run)
{
    int n = 0;
    for (uint32_t i = 0; i < demo_hold_count(run->shared); i++)
        n += run->shared->holds[i].got_ns > run->master_killed_ns;
    return n;
}

static void report_masters(struct demo_view *view, const struct demo_run *run)
{
    struct json fields;

    if (!run->master_killed_ns)
        return;
    demo_view_fields(view, &fields, "masters");
    json_int(&fields, "left", DEMO_MASTERS - 1);
    json_int(&fields, "holds_after", holds_after_kill(run));
    if (view->mode == DEMO_JSON)
        demo_view_event(view, &fields, "%s", "");
    demo_view_line(view, "\n%sServers%s        %d of %d are left since %s; %s holds came after that",
                   demo_on(view, 's'), demo_off(view), DEMO_MASTERS - 1, DEMO_MASTERS,
                   LENGTH(run->master_killed_ns - run->began_ns), WORD(holds_after_kill(run)));
}

/* Counts the errors, and prints one line for each. */
static int report_wrongs(const struct demo_run *run, const struct demo_result *with, const struct demo_check *check)
{
    const struct demo_accident *stop = &run->shared->accidents[DEMO_STOP];
    int wrongs = 0, threads = run->shared->order.threads;
    int first = run->shared->holds[check->first].row, second = run->shared->holds[check->second].row;

    if (with->lost_updates)
        wrongs++, say(SAY_ERROR, "error", "%d updates were lost under the lock", with->lost_updates);
    if (with->oversold)
        wrongs++, say(SAY_ERROR, "error", "oversold by %d under the lock", with->oversold);
    if (check->overlaps)
        wrongs++,
            say(SAY_ERROR, "error", "%d holds overlap; the first: thread %d.%d and thread %d.%d (process.thread)",
                check->overlaps, first / threads + 1, first % threads + 1, second / threads + 1, second % threads + 1);
    if (check->late_writes)
        wrongs++, say(SAY_ERROR, "error", "%d writes came after their holder's lease", check->late_writes);
    for (int kind = 0; kind < DEMO_ACCIDENTS; kind++)
        if (run->not_taken_over & 1 << kind)
            wrongs++, say(SAY_ERROR, "error", "nobody got the lock within %d leases after its holder was %s", 5,
                          kind == DEMO_KILL ? "killed" : "stopped");
    if (run->masters && !holds_after_kill(run))
        wrongs++, say(SAY_ERROR, "error", "nobody got the lock after a server was killed");
    if (atomic_load(&stop->state) == DEMO_AWAKE && stop->release_status != HLK_LOST)
        wrongs++, say(SAY_ERROR, "error", "the stopped holder's release answered %s, not HLK_LOST",
                      hlk_status_name((enum hlk_status)stop->release_status));
    if (atomic_load(&stop->state) == DEMO_AWAKE && !atomic_load(&stop->lost_ns))
        wrongs++, say(SAY_ERROR, "error", "the stopped holder was never told HLK_EVENT_LOST");
    return wrongs;
}

/* The hand-overs as the workers' clients have counted them. */
static void report_hand_overs(struct demo_view *view, const struct demo_run *run)
{
    int64_t passed = 0, granted = 0;
    struct json fields;

    for (int i = 0; i < run->shared->order.processes; i++) {
        passed += atomic_load(&run->shared->processes[i].passed);
        granted += atomic_load(&run->shared->processes[i].granted);
    }
    if (view->mode == DEMO_JSON) {
        demo_view_fields(view, &fields, "hand_overs");
        json_int(&fields, "local", passed);
        json_int(&fields, "across", granted);
        demo_view_event(view, &fields, "%s", "");
        return;
    }
    demo_view_line(view,
                   "\n%sHand-overs%s     %s from thread to thread of a process without Redis, %s across processes",
                   demo_on(view, 's'), demo_off(view), WORD(passed), WORD(granted));
}

static void report_verdict(struct demo_view *view, const struct demo_result *without, const struct demo_result *with,
                           const struct demo_check *check, const char *picture, bool good)
{
    struct json fields;

    if (view->mode == DEMO_JSON) {
        demo_view_fields(view, &fields, "result");
        json_int(&fields, "lost_updates_without", without->lost_updates);
        json_int(&fields, "lost_updates_with", with->lost_updates);
        json_int(&fields, "oversold_without", without->oversold);
        json_int(&fields, "oversold_with", with->oversold);
        json_int(&fields, "holds_checked", check->holds);
        json_int(&fields, "overlaps", check->overlaps);
        json_string(&fields, "picture", picture);
        json_bool(&fields, "good", good);
        demo_view_event(view, &fields, "%s", "");
        return;
    }
    const char *s = demo_on(view, 's'), *off = demo_off(view);
    demo_view_line(view, "\n%sLost updates%s   without the lock %s%s%s, with it %s%s%s%s", s, off,
                   demo_on(view, without->lost_updates ? 'b' : 's'), WORD(without->lost_updates), off,
                   demo_on(view, with->lost_updates ? 'b' : 'g'), WORD(with->lost_updates), off,
                   without->lost_updates ? "" : "   (nobody met this time; more --threads or --seconds)");
    demo_view_line(view, "%sOverlaps%s       %s in %s holds", s, off, check->overlaps ? WORD(check->overlaps) : "none",
                   WORD(check->holds));
    demo_view_line(view, "%sPicture%s        %s", s, off, picture);
}

int demo_report_end(struct demo_view *view, const struct demo_run *run, const struct demo_result *without,
                    const struct demo_result *with, const char *picture, int wrongs)
{
    struct demo_check check;

    if (!demo_check_holds(run->shared, &check) || !report_holders(view, run)) {
        say(SAY_ERROR, "error", "no memory for the report");
        return EX_OSERR;
    }
    if (run->masters)
        report_masters(view, run);
    else
        report_hand_overs(view, run);
    report_late_write(view, run);
    fflush(stdout);
    wrongs += report_wrongs(run, with, &check);
    report_verdict(view, without, with, &check, picture, wrongs == 0);
    return wrongs ? 1 : 0;
}
