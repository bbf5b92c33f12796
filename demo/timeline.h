/* timeline.h - a picture of waits and holds, as SVG. Pure: it reads no clock and opens no file.
 *
 * One row for each thread, with the rows of a process together; one panel for each window of time. The picture has
 * colours for light and dark mode, needs no script, and stays small: a `dense` panel draws columns one pixel wide
 * instead of spans. */
#ifndef HLK_DEMO_TIMELINE_H
#define HLK_DEMO_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum timeline_kind {
    TIMELINE_HELD,                      /* without harm */
    TIMELINE_HARMFUL,                   /* overwrote another writer's value */
    TIMELINE_KILLED,
    TIMELINE_STOPPED,                   /* held until valid_ns, was stopped or late until ended_ns */
    TIMELINE_UNGUARDED                  /* worked without the lock, without harm */
};

struct timeline_span {                  /* waits from asked to got, holds from got to ended; got 0: never got it */
    int row;
    enum timeline_kind kind;
    int64_t asked_ns, got_ns, valid_ns, ended_ns;       /* valid_ns only for TIMELINE_STOPPED */
};

enum timeline_note_kind { TIMELINE_NOTE_DEAD, TIMELINE_NOTE_STOPPED, TIMELINE_NOTE_GAP, TIMELINE_NOTE_MARK };

struct timeline_note {                  /* a text at some rows and times; borrowed */
    enum timeline_note_kind kind;       /* DEAD, STOPPED: those rows did not run; MARK: one time */
    int row, rows;
    int64_t from_ns, to_ns;             /* MARK: only from_ns */
    const char *text;
};

enum timeline_place { TIMELINE_LEFT, TIMELINE_RIGHT, TIMELINE_WIDE };

struct timeline_panel {
    const char *title, *hint;           /* one line each; hint "" for none */
    enum timeline_place place;          /* LEFT and RIGHT share a line */
    bool arrows;                        /* from the end of each hold to the next one; in another colour within a
                                         * process */
    bool dense;                         /* thousands of spans: drawn as columns */
    int64_t from_ns, to_ns;             /* the window; the axis starts at zero_ns */
    int64_t zero_ns;
    const struct timeline_span *spans;
    size_t span_count;
    const struct timeline_note *notes;
    size_t note_count;
};

struct timeline {
    const char *title, *subtitle;
    int processes, threads;             /* threads of each; rows are numbered process by process */
    const struct timeline_panel *panels;
    size_t panel_count;
};

/* False: `out` has an error (errno), or no memory. Spans need no order. */
bool timeline_write(FILE *out, const struct timeline *timeline);

#endif
