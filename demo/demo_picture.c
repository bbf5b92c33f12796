/* demo_picture.c - turns records into spans, chooses the windows, writes the texts. */
#include "demo_picture.h"
#include "demo_stats.h"
#include "demo_text.h"
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#define HOLDS_SHOWN 20 /* in the window that is compared with the unlocked one */
#define NOTES 8
#define WORDS 160

struct scene { /* one panel and what it borrows */
    struct timeline_span *spans;
    size_t count;
    struct timeline_note notes[NOTES];
    size_t note_count;
    char title[WORDS], hint[WORDS], words[NOTES][WORDS];
};

static enum timeline_kind kind_of(const struct demo_hold *hold)
{
    switch (atomic_load(&hold->how)) {
    case DEMO_KILLED:
        return TIMELINE_KILLED;
    case DEMO_LOST:
        return TIMELINE_STOPPED;
    default:
        return TIMELINE_HELD;
    }
}

/* Adds the spans of a phase that overlap [from, to]. */
static bool scene_take(struct scene *scene, const struct demo_run *run, int64_t from_ns, int64_t to_ns)
{
    uint32_t count = demo_hold_count(run->shared);

    scene->spans = calloc(count ? count : 1, sizeof *scene->spans);
    for (uint32_t i = 0; scene->spans && i < count; i++) {
        const struct demo_hold *hold = &run->shared->holds[i];
        int64_t ended_ns = hold->ended_ns ? hold->ended_ns : run->ended_ns;
        if (hold->asked_ns < to_ns && ended_ns > from_ns)
            scene->spans[scene->count++] = (struct timeline_span){ hold->row,    kind_of(hold),  hold->asked_ns,
                                                                   hold->got_ns, hold->valid_ns, ended_ns };
    }
    return scene->spans != NULL;
}

static char *scene_note(struct scene *scene, struct timeline_note note) /* returns a buffer of WORDS for its text */
{
    char *words = scene->words[scene->note_count];
    note.text = words;
    scene->notes[scene->note_count++] = note;
    return words;
}

static int by_write(const void *a, const void *b)
{
    const struct demo_hold *const *left = a, *const *right = b;
    return ((*left)->wrote_ns > (*right)->wrote_ns) - ((*left)->wrote_ns < (*right)->wrote_ns);
}

/* Counts the writes in the window that overwrote a stock other than the one they had read, and marks their spans. */
static bool mark_harm(struct scene *scene, const struct demo_run *run, int64_t from_ns, int64_t to_ns, int *writes,
                      int *harmful)
{
    uint32_t count = demo_hold_count(run->shared), wrote = 0;
    const struct demo_hold **sorted = calloc(count ? count : 1, sizeof *sorted);

    if (!sorted)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (run->shared->holds[i].wrote_ns)
            sorted[wrote++] = &run->shared->holds[i];
    qsort(sorted, wrote, sizeof *sorted, by_write);
    for (uint32_t i = 1; i < wrote; i++) {
        const struct demo_hold *hold = sorted[i];
        bool harm = sorted[i - 1]->stock_wrote != hold->stock_read;
        bool shown = hold->wrote_ns >= from_ns && hold->wrote_ns <= to_ns;
        *writes += shown;
        *harmful += shown && harm;
        for (size_t k = 0; harm && k < scene->count; k++)
            if (scene->spans[k].row == hold->row && scene->spans[k].asked_ns == hold->asked_ns)
                scene->spans[k].kind = TIMELINE_HARMFUL;
    }
    free(sorted);
    return true;
}

/* The start of a window, at the hold at `percent` of all. */
static int64_t window_begin(const struct demo_run *run, int percent)
{
    uint32_t count = demo_hold_count(run->shared), index = count * (uint32_t)percent / 100;
    return index < count ? run->shared->holds[index].asked_ns : run->began_ns;
}

/* The time that HOLDS_SHOWN hand-overs take in this run. */
static int64_t window_length(const struct demo_run *run, int64_t from_ns)
{
    const struct demo_hold *hold = demo_next_hold(run->shared, from_ns), *next = hold;
    for (int i = 0; next && i < HOLDS_SHOWN; i++) {
        next = demo_next_hold(run->shared, next->got_ns);
        hold = next ? next : hold;
    }
    int64_t length_ns = hold ? hold->got_ns - from_ns : 0;
    return length_ns > 2000000 ? length_ns : 2000000;
}

static struct timeline_panel panel_of(const struct scene *scene, enum timeline_place place, const struct demo_run *run,
                                      int64_t from_ns, int64_t to_ns)
{
    return (struct timeline_panel){ .title = scene->title,
                                    .hint = scene->hint,
                                    .place = place,
                                    .from_ns = from_ns,
                                    .to_ns = to_ns,
                                    .zero_ns = run->began_ns,
                                    .spans = scene->spans,
                                    .span_count = scene->count,
                                    .notes = scene->notes,
                                    .note_count = scene->note_count };
}

/* These spans are not holds, and get another colour. */
static void mark_unguarded(struct scene *scene)
{
    for (size_t i = 0; i < scene->count; i++)
        if (scene->spans[i].kind == TIMELINE_HELD)
            scene->spans[i].kind = TIMELINE_UNGUARDED;
}

static bool scene_without(struct scene *scene, const struct demo_run *run, int64_t from_ns, int64_t to_ns)
{
    int writes = 0, harmful = 0;

    if (!scene_take(scene, run, from_ns, to_ns) || !mark_harm(scene, run, from_ns, to_ns, &writes, &harmful))
        return false;
    mark_unguarded(scene);
    snprintf(scene->title, WORDS, "Without the lock");
    snprintf(scene->hint, WORDS,
             "from read to write: %d of these %d put back a stock that others had changed meanwhile", harmful, writes);
    return true;
}

static bool scene_with(struct scene *scene, const struct demo_run *run, int64_t from_ns, int64_t to_ns)
{
    if (!scene_take(scene, run, from_ns, to_ns))
        return false;
    snprintf(scene->title, WORDS, "With the lock");
    snprintf(scene->hint, WORDS, "the same length of time: one holder after the other; blue: within a process");
    return true;
}

/* The killed process did not run from the kill to the first order of its replacement. */
static int64_t restarted_ns(const struct demo_run *run, const struct demo_accident *killed)
{
    int64_t first_ns = run->ended_ns;
    int threads = run->shared->order.threads, process = killed->row / threads;

    for (uint32_t i = 0; i < demo_hold_count(run->shared); i++) {
        const struct demo_hold *hold = &run->shared->holds[i];
        if (hold->row / threads == process && hold->asked_ns > killed->hit_ns && hold->asked_ns < first_ns)
            first_ns = hold->asked_ns;
    }
    return first_ns;
}

static void note_dead(struct scene *scene, const struct demo_run *run, const char *text)
{
    const struct demo_accident *killed = &run->shared->accidents[DEMO_KILL];
    int threads = run->shared->order.threads, row = killed->row / threads * threads;

    if (atomic_load(&killed->state) < DEMO_HIT)
        return;
    snprintf(scene_note(scene, (struct timeline_note){ TIMELINE_NOTE_DEAD, row, threads, killed->hit_ns,
                                                       restarted_ns(run, killed), NULL }),
             WORDS, "%s", text);
}

static void note_stopped(struct scene *scene, const struct demo_run *run, const char *text)
{
    const struct demo_accident *stopped = &run->shared->accidents[DEMO_STOP];
    int threads = run->shared->order.threads, row = stopped->row / threads * threads;

    if (!stopped->resumed_ns)
        return;
    snprintf(scene_note(scene, (struct timeline_note){ TIMELINE_NOTE_STOPPED, row, threads, stopped->hit_ns,
                                                       stopped->resumed_ns, NULL }),
             WORDS, "%s", text);
}

static bool scene_whole(struct scene *scene, const struct demo_run *run)
{
    char word[DEMO_WORD];

    if (!scene_take(scene, run, run->began_ns, run->ended_ns))
        return false;
    note_dead(scene, run, "killed, then started again");
    note_stopped(scene, run, "stopped");
    if (run->master_killed_ns)
        snprintf(scene_note(scene, (struct timeline_note){ TIMELINE_NOTE_MARK, 0, 1, run->master_killed_ns, 0, NULL }),
                 WORDS, "a server is killed");
    snprintf(scene->title, WORDS, "The whole run with the lock");
    snprintf(scene->hint, WORDS, "%s waits and holds, a column per pixel",
             demo_number(word, (int64_t)demo_hold_count(run->shared)));
    return true;
}

static bool scene_killed(struct scene *scene, const struct demo_run *run, int64_t *from_ns, int64_t *to_ns)
{
    const struct demo_accident *killed = &run->shared->accidents[DEMO_KILL];
    const struct demo_hold *next = demo_next_hold(run->shared, killed->hit_ns);
    char word[DEMO_WORD];

    if (atomic_load(&killed->state) < DEMO_HIT || !next)
        return true;
    int64_t gap_ns = next->got_ns - killed->hit_ns;
    *from_ns = killed->hit_ns - gap_ns / 10;
    *to_ns = next->got_ns + gap_ns / 8;
    note_dead(scene, run, "");
    snprintf(scene_note(scene,
                        (struct timeline_note){ TIMELINE_NOTE_GAP, next->row, 1, killed->hit_ns, next->got_ns, NULL }),
             WORDS, "its lease runs out: %s", demo_length(word, gap_ns));
    snprintf(scene->title, WORDS, "A holder is killed");
    snprintf(scene->hint, WORDS, "nobody renews its lease of %d ms any more; then the next waiter has the lock",
             DEMO_WATCHDOG_MS);
    return scene_take(scene, run, *from_ns, *to_ns);
}

static bool scene_stopped(struct scene *scene, const struct demo_run *run, int64_t *from_ns, int64_t *to_ns)
{
    const struct demo_accident *stopped = &run->shared->accidents[DEMO_STOP];

    if (atomic_load(&stopped->state) != DEMO_AWAKE)
        return true;
    int64_t length_ns = stopped->awake_ns - stopped->hit_ns;
    *from_ns = stopped->hit_ns - length_ns / 12;
    *to_ns = stopped->awake_ns + length_ns / 12;
    note_stopped(scene, run, "stopped");
    snprintf(
        scene_note(scene, (struct timeline_note){ TIMELINE_NOTE_MARK, stopped->row, 1, stopped->valid_ns, 0, NULL }),
        WORDS, "its lease is over");
    snprintf(
        scene_note(scene, (struct timeline_note){ TIMELINE_NOTE_MARK, stopped->row, 1, stopped->awake_ns, 0, NULL }),
        WORDS, "woken: LOST");
    snprintf(scene->title, WORDS, "A holder is stopped past its lease");
    snprintf(scene->hint, WORDS, "others go on; when it wakes it is told, and refuses its own late write");
    return scene_take(scene, run, *from_ns, *to_ns);
}

bool demo_picture_write(FILE *out, const struct demo_run *without, const struct demo_result *without_result,
                        const struct demo_run *with, const struct demo_result *with_result)
{
    enum { WITHOUT, WITH, WHOLE, KILLED, STOPPED, SCENES };
    struct scene *scenes = calloc(SCENES, sizeof *scenes);
    struct timeline_panel panels[SCENES];
    char title[WORDS], subtitle[2 * WORDS], a[DEMO_WORD], b[DEMO_WORD];
    int64_t kill_from_ns = 0, kill_to_ns = 0, stop_from_ns = 0, stop_to_ns = 0;
    bool ok = false;

    if (!scenes)
        return false;
    int64_t from_ns = window_begin(without, 10), with_ns = window_begin(with, 10),
            length_ns = window_length(with, with_ns);
    if (!scene_without(&scenes[WITHOUT], without, from_ns, from_ns + length_ns) ||
        !scene_with(&scenes[WITH], with, with_ns, with_ns + length_ns) || !scene_whole(&scenes[WHOLE], with) ||
        !scene_killed(&scenes[KILLED], with, &kill_from_ns, &kill_to_ns) ||
        !scene_stopped(&scenes[STOPPED], with, &stop_from_ns, &stop_to_ns))
        goto out;
    panels[WITHOUT] = panel_of(&scenes[WITHOUT], TIMELINE_LEFT, without, from_ns, from_ns + length_ns);
    panels[WITH] = panel_of(&scenes[WITH], TIMELINE_RIGHT, with, with_ns, with_ns + length_ns);
    panels[WHOLE] = panel_of(&scenes[WHOLE], TIMELINE_WIDE, with, with->began_ns, with->ended_ns);
    panels[KILLED] = panel_of(&scenes[KILLED], TIMELINE_LEFT, with, kill_from_ns, kill_to_ns);
    panels[STOPPED] = panel_of(&scenes[STOPPED], TIMELINE_RIGHT, with, stop_from_ns, stop_to_ns);
    panels[WITH].arrows = panels[KILLED].arrows = panels[STOPPED].arrows = true;
    panels[WHOLE].dense = panels[KILLED].dense = panels[STOPPED].dense = true;

    const struct demo_order *order = &with->shared->order;
    snprintf(title, sizeof title, "hasplock demo: %d processes x %d threads sell %s items from one SQLite file",
             order->processes, order->threads, demo_number(a, order->items));
    snprintf(subtitle, sizeof subtitle, "Lost updates: without the lock %s, with the lock %s.",
             demo_number(a, without_result->lost_updates), demo_number(b, with_result->lost_updates));
    ok = timeline_write(out, &(struct timeline){ title, subtitle, order->processes, order->threads, panels, SCENES });
out:
    for (int i = 0; i < SCENES; i++)
        free(scenes[i].spans);
    free(scenes);
    return ok;
}
