/* demo_view.h - what the demo shows while it runs.
 *
 *     live     a block that is redrawn below the lines of past events: a terminal
 *     plain    a line for each event and each fifth of the work: a pipe, a dumb terminal
 *     json     one object a line
 *
 * Only the parent's main thread calls it. */
#ifndef HLK_DEMO_VIEW_H
#define HLK_DEMO_VIEW_H

#include "demo_shared.h"
#include "json.h"

enum demo_mode { DEMO_LIVE, DEMO_PLAIN, DEMO_JSON };

struct demo_view {                      /* zeroed, then demo_view_init */
    enum demo_mode mode;
    bool color, utf8;
    bool cursor_hidden;
    int width, height;                  /* of the terminal, read before each frame */
    const struct demo_shared *shared;   /* the current phase; NULL between two */
    int64_t began_ns, limit_ns, drawn_ns;
    int lines;                          /* of the block on the screen */
    int fifths;                         /* shown already in plain mode */
};

/* `mode` DEMO_LIVE becomes plain if stdout is no capable terminal. */
void demo_view_init(struct demo_view *view, enum demo_mode mode);

void demo_view_phase(struct demo_view *view, const struct demo_shared *shared, int64_t began_ns, int64_t limit_ns);
void demo_view_tick(struct demo_view *view);        /* called often; redraws at intervals */
void demo_view_phase_end(struct demo_view *view);   /* removes the block */

/* Shows an event: demo_view_fields, json_int(...), demo_view_event. Either the text is shown, or the JSON fields. */
void demo_view_fields(const struct demo_view *view, struct json *fields, const char *event);
void demo_view_event(struct demo_view *view, struct json *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One more line about the last event; nothing in json mode. */
void demo_view_more(struct demo_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of the report; nothing in json mode. */
void demo_view_line(struct demo_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Escape sequences for colour on and off, or "". */
const char *demo_on(const struct demo_view *view, char style);     /* 'g'ood, 'b'ad, 'w'arning, 'd'im, 's'trong */
const char *demo_off(const struct demo_view *view);

void demo_view_close(struct demo_view *view);       /* shows the cursor again, also after a signal */

#endif
