/* timeline.c - draws the panels: bands, axis, bars, arrows, notes. Lengths are pixels of an image that is WIDTH
 * wide. */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 1240
#define MARGIN 24
#define LEGEND_LINE 20
#define GUTTER 64     /* left of each panel: names of the rows */
#define GAP 30        /* between two panels of a line */
#define PANEL_HEAD 58 /* title, hint, texts of marks */
#define PANEL_FOOT 40 /* axis and margin */
#define TICKS 7       /* at most so many labels on an axis */
#define ARROWS 60     /* with more of them in a panel, only the long ones are drawn */
#define LONG_ARROW 20

struct canvas {
    FILE *out;
    const struct timeline *timeline;
    const struct timeline_panel *panel;
    double x, y, width; /* of the panel's plot */
    double row;         /* height of one */
    int rows;
};

static const char STYLE[] =
    "<style>\n"
    "text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1d2433}\n"
    ".t{font-size:19px;font-weight:600}.b{font-size:14px;font-weight:600}\n"
    ".s{fill:#5d6779}.n{font-size:10.5px;fill:#5d6779}\n"
    ".bg{fill:#fff}.band{fill:#f4f6fa}.plot{fill:none;stroke:#d5dae4}.grid{stroke:#e3e7ef}\n"
    ".w{fill:#c3cfe6}.h{fill:#1f8a5b}.x{fill:url(#harm)}.harm{fill:#d63a3a}.u{fill:#8792a8}\n"
    ".k{fill:#b3261e}.p{fill:#e08a00}.late{fill:url(#late)}\n"
    ".wl{stroke:#c3cfe6}.hl{stroke:#1f8a5b}.pl{stroke:#e08a00}.kl{stroke:#b3261e}\n"
    ".a{stroke:#3a4357;stroke-width:.9;fill:none}.ah{fill:#3a4357}\n"
    ".al{stroke:#2f6fd6;stroke-width:1.1;fill:none}.alh{fill:#2f6fd6}\n"
    ".dead{fill:#b3261e;fill-opacity:.10}.stop{fill:#e08a00;fill-opacity:.16}\n"
    ".dt{fill:#b3261e;font-size:11px;font-weight:600}.st{fill:#a86400;font-size:11px;font-weight:600}\n"
    ".halo{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e4e8f0}.s,.n{fill:#98a3b7}.bg{fill:#12161f}.band{fill:#1a202c}\n"
    ".plot{stroke:#343d4f}.grid{stroke:#2a3242}\n"
    ".w{fill:#3b4a68}.h{fill:#35b97f}.harm{fill:#ff6b6b}.u{fill:#66728a}.k{fill:#ff6b6b}.p{fill:#ffb13d}\n"
    ".wl{stroke:#3b4a68}.hl{stroke:#35b97f}.pl{stroke:#ffb13d}.kl{stroke:#ff6b6b}\n"
    ".a{stroke:#c6cfdf}.ah{fill:#c6cfdf}.al{stroke:#7fb0ff}.alh{fill:#7fb0ff}\n"
    ".dead{fill:#ff6b6b;fill-opacity:.16}.stop{fill:#ffb13d;fill-opacity:.16}\n"
    ".dt{fill:#ff8b8b}.st{fill:#ffc268}.halo{stroke:#12161f}}\n"
    "</style>\n";

static const char DEFS[] =
    "<defs>" /* patterns besides colours, for colour-blind readers and black-and-white print */
    "<pattern id=\"harm\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">"
    "<rect class=\"harm\" width=\"5\" height=\"5\"/><rect class=\"bg\" width=\"1.4\" height=\"5\"/></pattern>"
    "<pattern id=\"late\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<rect class=\"p\" width=\"2.5\" height=\"6\"/></pattern>"
    "<marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"5.4\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" "
    "orient=\"auto\">"
    "<path class=\"ah\" d=\"M0 .6L6 3L0 5.4z\"/></marker>"
    "<marker id=\"tip-within\" viewBox=\"0 0 6 6\" refX=\"5.4\" refY=\"3\" markerWidth=\"6\" "
    "markerHeight=\"6\" orient=\"auto\">"
    "<path class=\"alh\" d=\"M0 .6L6 3L0 5.4z\"/></marker></defs>\n";

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            if ((unsigned char)*text >= ' ') /* XML 1.0 allows no other control character */
                fputc(*text, out);
        }
    }
}

static void put_text(FILE *out, double x, double y, const char *class, const char *anchor, const char *text)
{
    fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y, anchor);
    put_escaped(out, text);
    fputs("</text>\n", out);
}

static void put_rect(FILE *out, const char *class, double x, double y, double width, double height)
{
    fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, x, y, width,
            height);
}

static void put_cross(FILE *out, double x, double y)
{
    fprintf(out, "<path class=\"kl\" stroke-width=\"2.6\" d=\"M%.1f %.1fl10 10m0 -10l-10 10\"/>\n", x - 5, y - 5);
}

/* The x of a time, inside the plot. */
static double at_x(const struct canvas *c, int64_t ns)
{
    const struct timeline_panel *p = c->panel;
    double share = (double)(ns - p->from_ns) / (double)(p->to_ns - p->from_ns);
    return c->x + c->width * (share < 0 ? 0 : share > 1 ? 1 : share);
}

static double at_y(const struct canvas *c, int row) /* top of the row */
{
    return c->y + c->row * row;
}

static bool in_window(const struct canvas *c, int64_t from_ns, int64_t to_ns)
{
    return to_ns > c->panel->from_ns && from_ns < c->panel->to_ns;
}

/* 1, 2 or 5 times a power of ten, so that at most TICKS of them fit. */
static int64_t tick_ns(int64_t window_ns)
{
    static const int64_t steps[] = { 1, 2, 5 };
    for (int64_t power = 1; power < INT64_MAX / 100; power *= 10)
        for (size_t i = 0; i < 3; i++)
            if (window_ns / (steps[i] * power) <= TICKS)
                return steps[i] * power;
    return window_ns;
}

static void draw_axis(const struct canvas *c)
{
    const struct timeline_panel *p = c->panel;
    int64_t step = tick_ns(p->to_ns - p->from_ns), first = (p->from_ns - p->zero_ns + step - 1) / step * step;
    double bottom = at_y(c, c->rows);

    for (int64_t at = first; at <= p->to_ns - p->zero_ns; at += step) {
        char label[48];
        double x = at_x(c, at + p->zero_ns);
        fprintf(c->out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, c->y, bottom + 4);
        if (step >= 100000000)
            snprintf(label, sizeof label, "%.*f s", step >= 1000000000 ? 0 : 1, (double)at / 1e9);
        else
            snprintf(label, sizeof label, "%.*f ms", step >= 1000000 ? 0 : 1, (double)at / 1e6);
        put_text(c->out, x, bottom + 17, "n", "middle", label);
    }
}

static void draw_rows(const struct canvas *c)
{
    int threads = c->timeline->threads;

    for (int process = 0; process < c->timeline->processes; process++) {
        char label[32];
        double y = at_y(c, process * threads);
        if (process % 2 == 0)
            put_rect(c->out, "band", c->x, y, c->width, c->row * threads);
        snprintf(label, sizeof label, "process %d", process + 1);
        put_text(c->out, c->x - 8, y + c->row * threads / 2 + 4, "s", "end", label);
    }
    draw_axis(c);
    put_rect(c->out, "plot", c->x, c->y, c->width, c->row * c->rows);
}

static const char *kind_class(enum timeline_kind kind)
{
    static const char *const classes[] = { "h", "x", "k", "p", "u" };
    return classes[kind];
}

static void draw_bar(const struct canvas *c, const char *class, int row, int64_t from_ns, int64_t to_ns, double inset)
{
    if (!in_window(c, from_ns, to_ns))
        return;
    double x = at_x(c, from_ns), width = at_x(c, to_ns) - x;
    put_rect(c->out, class, x, at_y(c, row) + inset, width < 0.8 ? 0.8 : width, c->row - 2 * inset);
}

static void draw_span(const struct canvas *c, const struct timeline_span *s)
{
    double thin = c->row * 0.36, thick = c->row * 0.12;
    int64_t held_to_ns = s->kind == TIMELINE_STOPPED && s->valid_ns < s->ended_ns ? s->valid_ns : s->ended_ns;

    draw_bar(c, "w", s->row, s->asked_ns, s->got_ns ? s->got_ns : s->ended_ns, thin);
    if (!s->got_ns)
        return;
    draw_bar(c, kind_class(s->kind), s->row, s->got_ns, held_to_ns, thick);
    if (held_to_ns < s->ended_ns)
        draw_bar(c, "late", s->row, held_to_ns, s->ended_ns, thick);
    if (s->kind == TIMELINE_KILLED && in_window(c, s->ended_ns, s->ended_ns + 1))
        put_cross(c->out, at_x(c, s->ended_ns), at_y(c, s->row) + c->row / 2);
}

/* For each pixel column the most prominent state of a row: 0 none, 1 waited, 2 held. */
static void fill_columns(const struct canvas *c, int row, unsigned char *columns, int count)
{
    memset(columns, 0, (size_t)count);
    for (size_t i = 0; i < c->panel->span_count; i++) {
        const struct timeline_span *s = &c->panel->spans[i];
        if (s->row != row || !in_window(c, s->asked_ns, s->ended_ns))
            continue;
        int held_from = s->got_ns ? (int)(at_x(c, s->got_ns) - c->x) : count;
        int to = (int)(at_x(c, s->kind == TIMELINE_STOPPED ? s->valid_ns : s->ended_ns) - c->x);
        for (int x = (int)(at_x(c, s->asked_ns) - c->x); x <= to && x < count; x++) {
            unsigned char what = x >= held_from ? 2 : 1;
            columns[x] = what > columns[x] ? what : columns[x];
        }
    }
}

static void draw_columns(const struct canvas *c, int row, const unsigned char *columns, int count, int what)
{
    double y = at_y(c, row) + c->row / 2;
    fprintf(c->out, "<path class=\"%s\" stroke-width=\"%.1f\" d=\"", what == 2 ? "hl" : "wl",
            c->row * (what == 2 ? 0.8 : 0.3));
    for (int x = 0; x < count;) {
        int from = x;
        while (x < count && columns[x] == what)
            x++;
        if (x > from)
            fprintf(c->out, "M%.0f %.1fh%d", c->x + from, y, x - from);
        else
            x++;
    }
    fputs("\"/>\n", c->out);
}

static bool draw_dense(const struct canvas *c)
{
    int count = (int)c->width;
    unsigned char *columns = malloc((size_t)count);
    if (!columns)
        return false;
    for (int row = 0; row < c->rows; row++) {
        fill_columns(c, row, columns, count);
        draw_columns(c, row, columns, count, 1);
        draw_columns(c, row, columns, count, 2);
    }
    free(columns);
    for (size_t i = 0; i < c->panel->span_count; i++) /* unusual spans are drawn in full */
        if (c->panel->spans[i].kind != TIMELINE_HELD)
            draw_span(c, &c->panel->spans[i]);
    return true;
}

static int by_got(const void *a, const void *b)
{
    const struct timeline_span *const *left = a, *const *right = b;
    return ((*left)->got_ns > (*right)->got_ns) - ((*left)->got_ns < (*right)->got_ns);
}

/* From one holder to the next, within a process or to another one. */
static void put_arrow(FILE *out, bool within, double x, double y, double to_x, double to_y)
{
    fprintf(out, "<path class=\"%s\" marker-end=\"url(#%s)\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", within ? "al" : "a",
            within ? "tip-within" : "tip", x, y, to_x, to_y);
}

static bool draw_arrows(const struct canvas *c)
{
    const struct timeline_panel *p = c->panel;
    const struct timeline_span **held = calloc(p->span_count ? p->span_count : 1, sizeof *held);
    size_t count = 0;

    if (!held)
        return false;
    for (size_t i = 0; i < p->span_count; i++)
        if (p->spans[i].got_ns && in_window(c, p->spans[i].got_ns, p->spans[i].ended_ns))
            held[count++] = &p->spans[i];
    qsort(held, count, sizeof *held, by_got);
    for (size_t i = 1; i < count; i++) {
        const struct timeline_span *from = held[i - 1], *to = held[i];
        int64_t end_ns = from->kind == TIMELINE_STOPPED ? from->valid_ns : from->ended_ns;
        double x = at_x(c, end_ns), to_x = at_x(c, to->got_ns) + 0.8;
        if (from->row == to->row || end_ns > to->got_ns || (count > ARROWS && to_x - x < LONG_ARROW))
            continue;
        bool up = to->row < from->row; /* starts and ends at the edges of the bars */
        bool within = from->row / c->timeline->threads == to->row / c->timeline->threads;
        put_arrow(c->out, within, x, at_y(c, from->row) + c->row * (up ? 0.12 : 0.88), to_x,
                  at_y(c, to->row) + c->row * (up ? 0.88 : 0.12));
    }
    free(held);
    return true;
}

static bool is_shade(const struct timeline_note *note)
{
    return note->kind == TIMELINE_NOTE_DEAD || note->kind == TIMELINE_NOTE_STOPPED;
}

/* Shades behind the bars where a process did not run. */
static void draw_shades(const struct canvas *c)
{
    for (size_t i = 0; i < c->panel->note_count; i++) {
        const struct timeline_note *note = &c->panel->notes[i];
        double x = at_x(c, note->from_ns);
        if (is_shade(note))
            put_rect(c->out, note->kind == TIMELINE_NOTE_DEAD ? "dead" : "stop", x, at_y(c, note->row),
                     at_x(c, note->to_ns) - x, c->row * note->rows);
    }
}

static void draw_note(const struct canvas *c, const struct timeline_note *note)
{
    double x = at_x(c, note->from_ns), to = at_x(c, note->to_ns);
    double middle = at_y(c, note->row) + c->row * note->rows / 2 + 4;
    bool fits = to - x > 60;

    switch (note->kind) {
    case TIMELINE_NOTE_DEAD:
    case TIMELINE_NOTE_STOPPED:
        put_text(c->out, fits ? (x + to) / 2 : to + 6, middle, note->kind == TIMELINE_NOTE_DEAD ? "dt halo" : "st halo",
                 fits ? "middle" : "start", note->text);
        break;
    case TIMELINE_NOTE_GAP:
        fprintf(c->out, "<path class=\"a\" stroke-dasharray=\"3 3\" d=\"M%.1f %.1fV%.1fM%.1f %.1fV%.1f\"/>\n", x, c->y,
                at_y(c, c->rows), to, c->y, at_y(c, c->rows));
        put_text(c->out, (x + to) / 2, middle, "halo", "middle", note->text);
        break;
    case TIMELINE_NOTE_MARK:
        fprintf(c->out, "<path class=\"a\" stroke-dasharray=\"3 3\" d=\"M%.1f %.1fV%.1f\"/>\n", x, c->y - 3,
                at_y(c, c->rows));
        put_text(c->out, x, c->y - 6, "n", x > c->x + c->width - 70 ? "end" : "middle", note->text);
        break;
    }
}

static bool draw_panel(struct canvas *c)
{
    const struct timeline_panel *p = c->panel;
    bool ok = true;

    put_text(c->out, c->x, c->y - 38, "b", "start", p->title);
    put_text(c->out, c->x, c->y - 21, "s", "start", p->hint);
    draw_rows(c);
    draw_shades(c);
    if (p->dense)
        ok = draw_dense(c);
    for (size_t i = 0; !p->dense && i < p->span_count; i++)
        draw_span(c, &p->spans[i]);
    if (p->arrows)
        ok = draw_arrows(c) && ok;
    for (size_t i = 0; i < p->note_count; i++)
        draw_note(c, &p->notes[i]);
    return ok;
}

static void draw_legend(FILE *out, double y)
{
    static const struct {
        const char *class, *text;
        double height, width;
    } items[] = {
        { "w", "waiting", 4, 74 },
        { "h", "holding", 11, 74 },
        { "u", "at work without the lock", 11, 162 },
        { "x", "wrote over another's write", 11, 184 },
        { "k", "killed while holding", 11, 144 },
        { "p", "stopped while holding", 11, 154 },
        { "late", "its lease was over", 11, 132 },
    };
    double x = MARGIN + GUTTER;

    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        if (*items[i].class == 'k')
            put_cross(out, x + 9, y - 4);
        else
            put_rect(out, items[i].class, x, y - 4 - items[i].height / 2, 18, items[i].height);
        put_text(out, x + 24, y, "s", "start", items[i].text);
        x += items[i].width + 24;
    }
    x = MARGIN + GUTTER;
    y += LEGEND_LINE;
    put_arrow(out, false, x + 4, y - 11, x + 14, y + 2);
    put_text(out, x + 24, y, "s", "start", "hand-over");
    x += 98;
    put_arrow(out, true, x + 4, y - 11, x + 14, y + 2);
    put_text(out, x + 24, y, "s", "start", "within a process");
}

/* A row is as high as a third of a screen allows. */
static double row_height(int rows)
{
    double height = 190.0 / rows;
    return height < 5 ? 5 : height > 16 ? 16 : height;
}

bool timeline_write(FILE *out, const struct timeline *t)
{
    int rows = t->processes * t->threads;
    double row = row_height(rows), line = PANEL_HEAD + row * rows + PANEL_FOOT, half = (WIDTH - 2 * MARGIN - GAP) / 2.0;
    double y = 84;
    int lines = 0;
    bool ok = true;

    for (size_t i = 0; i < t->panel_count; i++)
        lines += t->panels[i].place != TIMELINE_RIGHT;
    double height = y + line * lines + 26 + LEGEND_LINE;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n",
            WIDTH, height, WIDTH, height);
    fputs("<title>", out);
    put_escaped(out, t->title);
    fputs("</title>\n", out);
    fputs(STYLE, out);
    fputs(DEFS, out);
    put_rect(out, "bg", 0, 0, WIDTH, height);
    put_text(out, MARGIN, 38, "t", "start", t->title);
    put_text(out, MARGIN, 60, "s", "start", t->subtitle);
    for (size_t i = 0; i < t->panel_count; i++) {
        const struct timeline_panel *p = &t->panels[i];
        double left = p->place == TIMELINE_RIGHT ? MARGIN + half + GAP : MARGIN;
        struct canvas c = { out, t, p, left + GUTTER, y + PANEL_HEAD, 0, row, rows };
        c.width = (p->place == TIMELINE_WIDE ? WIDTH - 2 * MARGIN : half) - GUTTER;
        if (p->to_ns > p->from_ns)
            ok = draw_panel(&c) && ok;
        if (p->place != TIMELINE_LEFT)
            y += line;
    }
    draw_legend(out, height - 18 - LEGEND_LINE);
    fputs("</svg>\n", out);
    return ok && fflush(out) == 0 && !ferror(out);
}
