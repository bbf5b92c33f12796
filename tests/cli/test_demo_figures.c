/* What `hasplock demo` counts and draws, from records that are made here: cli/demo_stats.c, demo_text.c, timeline.c. */
#include "demo_stats.h"
#include "demo_text.h"
#include "timeline.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static struct demo_shared *shared; /* 2 processes x 2 threads */

static void records_start(void)
{
    int fd;
    shared = demo_shared_create("/tmp", 200, &fd);
    cr_assert_not_null(shared);
    close(fd);
    shared->order.processes = shared->order.threads = 2;
    shared->order.items = 100;
}

static void records_stop(void)
{
    demo_shared_destroy(shared);
}

/* Times in ms. It was valid for a second. */
static struct demo_hold *record(int row, int asked, int got, int ended, int how)
{
    struct demo_hold *hold = demo_hold_begin(shared, row);
    hold->pid = 100 + row / 2;
    hold->asked_ns = asked * MS;
    hold->got_ns = got * MS;
    hold->ended_ns = ended * MS;
    hold->valid_ns = (got + 1000) * MS;
    hold->how = how;
    return hold;
}

static struct demo_check checked(void)
{
    struct demo_check check;
    cr_assert(demo_check_holds(shared, &check));
    return check;
}

TestSuite(demo_check, .init = records_start, .fini = records_stop);

Test(demo_check, finds_nothing_in_holds_that_touch)
{
    record(2, 1, 20, 30, DEMO_RELEASED);
    record(0, 1, 10, 20, DEMO_RELEASED);
    record(1, 1, 0, 40, DEMO_LEFT); /* never held */
    cr_assert_eq(checked().holds, 2);
    cr_assert_eq(checked().overlaps, 0);
}

Test(demo_check, finds_two_at_once)
{
    record(0, 1, 10, 20, DEMO_RELEASED);
    record(2, 1, 19, 30, DEMO_RELEASED);
    cr_assert_eq(checked().overlaps, 1);
    cr_assert_eq(checked().first, 0);
    cr_assert_eq(checked().second, 1);
}

Test(demo_check, finds_short_holds_within_a_long_one)
{
    record(0, 1, 10, 100, DEMO_RELEASED);
    record(1, 1, 20, 30, DEMO_RELEASED);
    record(2, 1, 40, 50, DEMO_RELEASED);
    cr_assert_eq(checked().overlaps, 2);
}

Test(demo_check, takes_a_lost_hold_for_valid_until_its_lease_ends)
{
    struct demo_hold *stopped = record(0, 1, 10, 5000, DEMO_LOST);
    record(2, 1, 1010, 1020, DEMO_RELEASED);
    cr_assert_eq(checked().overlaps, 0);
    stopped->valid_ns = 1011 * MS;
    cr_assert_eq(checked().overlaps, 1);
}

Test(demo_check, counts_writes_after_the_lease)
{
    struct demo_hold *hold = record(0, 1, 10, 2000, DEMO_LOST);
    hold->wrote_ns = 1009 * MS;
    cr_assert_eq(checked().late_writes, 0);
    hold->wrote_ns = 1011 * MS;
    cr_assert_eq(checked().late_writes, 1);
}

Test(demo_check, buries_what_a_killed_process_left_open)
{
    record(0, 1, 10, 20, DEMO_RELEASED);
    record(0, 21, 30, 0, DEMO_OPEN);
    record(2, 1, 40, 0, DEMO_OPEN); /* another process */
    demo_bury(shared, 100, 35 * MS);
    cr_assert_eq(shared->holds[0].how, DEMO_RELEASED);
    cr_assert_eq(shared->holds[0].ended_ns, 20 * MS);
    cr_assert_eq(shared->holds[1].how, DEMO_KILLED);
    cr_assert_eq(shared->holds[1].ended_ns, 35 * MS);
    cr_assert_eq(shared->holds[2].how, DEMO_OPEN);
}

TestSuite(demo_tally, .init = records_start, .fini = records_stop);

Test(demo_tally, gives_percentiles_by_nearest_rank)
{
    struct demo_tally tally;
    for (int i = 1; i <= 100; i++) /* waits of 1 to 100 ms */
        record(0, 1000 * i - i, 1000 * i, 1000 * i + 2, DEMO_RELEASED);
    cr_assert(demo_tally_process(shared, 0, &tally));
    cr_assert_eq(tally.holds, 100);
    cr_assert_eq(tally.held_ns, 200 * MS);
    cr_assert_eq(tally.wait_p50_ns, 50 * MS);
    cr_assert_eq(tally.wait_p99_ns, 99 * MS);
    cr_assert_eq(tally.wait_longest_ns, 100 * MS);
}

Test(demo_tally, keeps_processes_apart)
{
    struct demo_tally tally;
    record(0, 1, 10, 20, DEMO_RELEASED);
    record(3, 1, 30, 60, DEMO_RELEASED);
    shared->cells[3].sold = 7;
    cr_assert(demo_tally_process(shared, 1, &tally));
    cr_assert_eq(tally.holds, 1);
    cr_assert_eq(tally.held_ns, 30 * MS);
    cr_assert_eq(tally.sold, 7);
    cr_assert(demo_tally_process(shared, -1, &tally));
    cr_assert_eq(tally.holds, 2);
}

Test(demo_tally, counts_a_wait_for_a_dead_holder_in_no_percentile)
{
    struct demo_tally tally;
    record(0, 1, 5, 10, DEMO_RELEASED);
    record(0, 11, 12, 100, DEMO_KILLED);
    record(2, 50, 1100, 1101, DEMO_RELEASED); /* waited for the dead one */
    record(3, 1102, 1104, 1105, DEMO_RELEASED);
    shared->accidents[DEMO_KILL].hit_ns = 100 * MS;
    shared->accidents[DEMO_KILL].pid = 100;
    shared->accidents[DEMO_KILL].state = DEMO_HIT;
    cr_assert(demo_tally_process(shared, -1, &tally));
    cr_assert_eq(tally.waits_met, 1);
    cr_assert_eq(tally.wait_p99_ns, 4 * MS);
    cr_assert_eq(tally.wait_longest_ns, 1050 * MS);
}

Test(demo_text, is_for_people)
{
    char word[DEMO_WORD], url[64];
    cr_assert_str_eq(demo_number(word, 0), "0");
    cr_assert_str_eq(demo_number(word, 999), "999");
    cr_assert_str_eq(demo_number(word, 1234567), "1,234,567");
    cr_assert_str_eq(demo_number(word, -1234), "-1,234");
    cr_assert_str_eq(demo_length(word, 420000), "0.42 ms");
    cr_assert_str_eq(demo_length(word, 18 * MS), "18 ms");
    cr_assert_str_eq(demo_length(word, 1020 * MS), "1.02 s");
    cr_assert_str_eq(demo_url(url, sizeof url, "redis://:p@ss@h:1/2"), "redis://h:1/2");
    cr_assert_str_eq(demo_url(url, sizeof url, "local:"), "local:");
}

/* --- the picture */

/* Every element closed, in order; no stray '<', '&' only before an entity. Enough of XML for what we write. */
static bool well_formed(const char *text)
{
    char open[16][24];
    int depth = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '&' && strncmp(at, "&amp;", 5) != 0 && strncmp(at, "&lt;", 4) != 0 && strncmp(at, "&gt;", 4) != 0)
            return false;
        if (*at != '<')
            continue;
        size_t name = strcspn(at + 1, " />"), to = strcspn(at, ">");
        if (!at[to] || memchr(at + 1, '<', to) || (depth == 0 && at > text) || depth == 16)
            return false;
        if (at[1] == '/') {
            size_t len = to - 2;
            if (strlen(open[depth - 1]) != len || strncmp(open[depth - 1], at + 2, len) != 0)
                return false;
            depth--;
        } else if (at[to - 1] != '/') {
            snprintf(open[depth++], sizeof open[0], "%.*s", (int)name, at + 1);
        }
        at += to;
    }
    return depth == 0;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static const struct timeline_span SPANS[] = {
    { 0, TIMELINE_HELD, 0, 0 + 1, 0, 10 * MS },
    { 5, TIMELINE_HELD, 2 * MS, 11 * MS, 0, 20 * MS },
    { 2, TIMELINE_STOPPED, 3 * MS, 21 * MS, 30 * MS, 40 * MS },
    { 4, TIMELINE_KILLED, 3 * MS, 41 * MS, 0, 45 * MS },
    { 1, TIMELINE_HARMFUL, 50 * MS, 51 * MS, 0, 55 * MS },
    { 3, TIMELINE_UNGUARDED, 60 * MS, 61 * MS, 0, 65 * MS },
    { 1, TIMELINE_HELD, 500 * MS, 510 * MS, 0, 550 * MS }, /* out of the window */
};

/* 3 processes x 2 threads, one panel; the caller frees. */
static char *draw(struct timeline_panel panel)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    panel.place = TIMELINE_WIDE;
    panel.to_ns = 100 * MS;
    panel.spans = SPANS;
    panel.span_count = sizeof SPANS / sizeof SPANS[0];
    cr_assert(timeline_write(out, &(struct timeline){ "a < b & c", "below", 3, 2, &panel, 1 }));
    fclose(out);
    cr_assert(well_formed(text), "%s", text);
    return text;
}

Test(timeline, has_a_label_a_process_and_a_bar_a_hold)
{
    char *svg = draw((struct timeline_panel){ .title = "t", .hint = "" });
    cr_assert_eq(count(svg, ">process "), 3);
    cr_assert_eq(count(svg, "rect class=\"h\""), 2 + 1); /* the legend has one of each */
    cr_assert_eq(count(svg, "rect class=\"p\""), 1 + 2); /* and the pattern one */
    cr_assert_eq(count(svg, "rect class=\"late\""), 1 + 1);
    cr_assert_eq(count(svg, "rect class=\"x\""), 1 + 1);
    cr_assert_eq(count(svg, "rect class=\"u\""), 1 + 1, "without the lock nobody holds it");
    cr_assert_not_null(strstr(svg, ".x{fill:url(#harm)}"), "hatched, for who cannot tell red from green");
    cr_assert_eq(count(svg, "rect class=\"k\""), 1);
    cr_assert_eq(count(svg, "path class=\"kl\""), 1 + 1);
    cr_assert_eq(count(svg, "marker-end"), 2);
    free(svg);
}

Test(timeline, draws_a_hand_over_from_each_holder_to_the_next)
{
    char *svg = draw((struct timeline_panel){ .title = "t", .hint = "", .arrows = true });
    cr_assert_eq(count(svg, "marker-end"), 5 + 2);
    free(svg);
}

Test(timeline, tells_hand_overs_within_a_process_from_others)
{
    static const struct timeline_span spans[] = {
        { 0, TIMELINE_HELD, 0, 1, 0, 10 * MS },
        { 1, TIMELINE_HELD, 0, 11 * MS, 0, 20 * MS }, /* of the same process */
        { 0, TIMELINE_HELD, 0, 21 * MS, 0, 30 * MS }, /* and back */
        { 2, TIMELINE_HELD, 0, 31 * MS, 0, 40 * MS }, /* of the next one */
    };
    struct timeline_panel panel = { .title = "t", .hint = "", .arrows = true, .place = TIMELINE_WIDE };
    char *text = NULL;
    size_t size = 0;
    panel.to_ns = 100 * MS;
    panel.spans = spans;
    panel.span_count = 4;
    FILE *out = open_memstream(&text, &size);
    cr_assert(timeline_write(out, &(struct timeline){ "t", "", 3, 2, &panel, 1 }));
    fclose(out);
    cr_assert(well_formed(text));
    cr_assert_eq(count(text, "class=\"al\" marker-end"), 2 + 1);
    cr_assert_eq(count(text, "class=\"a\" marker-end"), 1 + 1);
    free(text);
}

Test(timeline, stays_small_when_dense)
{
    static struct timeline_span spans[20000];
    char *text = NULL;
    size_t size = 0;
    for (int i = 0; i < 20000; i++)
        spans[i] = (struct timeline_span){ i % 6, TIMELINE_HELD, i * MS, i * MS + 1, 0, (i + 1) * MS };
    struct timeline_panel panel = { .title = "t", .hint = "", .dense = true, .place = TIMELINE_WIDE };
    panel.to_ns = 20000 * MS;
    panel.spans = spans;
    panel.span_count = 20000;
    FILE *out = open_memstream(&text, &size);
    cr_assert(timeline_write(out, &(struct timeline){ "t", "", 3, 2, &panel, 1 }));
    fclose(out);
    cr_assert(well_formed(text));
    cr_assert_lt(size, 150000);
    free(text);
}

Test(timeline, says_words_as_they_are)
{
    struct timeline_note note = { TIMELINE_NOTE_STOPPED, 2, 2, 20 * MS, 90 * MS, "1 < 2 & \"3\"\n" };
    char *svg = draw((struct timeline_panel){ .title = "t", .hint = "", .notes = &note, .note_count = 1 });
    cr_assert_not_null(strstr(svg, ">1 &lt; 2 &amp; \"3\"<"));
    cr_assert_not_null(strstr(svg, "<title>a &lt; b &amp; c</title>"));
    cr_assert_eq(count(svg, "class=\"stop\""), 1);
    free(svg);
}
