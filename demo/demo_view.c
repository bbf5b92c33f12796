/* demo_view.c - the live block, the plain lines, the JSON lines. A frame is built in memory and written at once, so it
 * does not flicker. Each line is cut to the terminal's width, so the block has a known number of lines. */
#include "demo_view.h"
#include "demo_text.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FRAME_NS 80000000 /* 12 frames a second */
#define BAR_LEAST 6
#define BAR_MOST 30
#define BESIDE_STOCK 63 /* columns of the rest of the line, for usual numbers */
#define BESIDE_PROCESS 68

struct line { /* a line of the block, and how many of its columns are free */
    FILE *out;
    const struct demo_view *view;
    int free;
};

const char *demo_on(const struct demo_view *view, char style)
{
    if (!view->color)
        return "";
    switch (style) {
    case 'g':
        return "\033[32m";
    case 'b':
        return "\033[1;31m";
    case 'w':
        return "\033[33m";
    case 'd':
        return "\033[2m";
    default:
        return "\033[1m";
    }
}

const char *demo_off(const struct demo_view *view)
{
    return view->color ? "\033[0m" : "";
}

void demo_view_init(struct demo_view *view, enum demo_mode mode)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;

    setlocale(LC_CTYPE, "");
    view->mode = mode == DEMO_LIVE && !terminal ? DEMO_PLAIN : mode;
    view->color = terminal && mode != DEMO_JSON && !(no_color && *no_color);
    view->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    view->width = 80;
    view->height = 24;
}

/* Adds `text` in one style, cut to the free columns. */
static void put(struct line *line, char style, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(struct line *line, char style, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs(style ? demo_on(line->view, style) : "", line->out);
    for (const char *c = text; *c; c++) {
        if (((unsigned char)*c & 0xc0) != 0x80 && line->free-- <= 0) { /* the first byte of a character */
            line->free = 0;
            break;
        }
        fputc(*c, line->out);
    }
    fputs(style ? demo_off(line->view) : "", line->out);
}

static struct line line_begin(struct demo_view *view, FILE *out)
{
    view->lines++;
    return (struct line){ out, view, view->width - 1 }; /* a full line would wrap */
}

static void line_end(const struct line *line)
{
    fputs("\033[K\n", line->out);
}

static void put_bar(struct line *line, char style, int64_t part, int64_t whole, int beside)
{
    int room = line->view->width - beside;
    int columns = room < BAR_LEAST ? BAR_LEAST : room > BAR_MOST ? BAR_MOST : room;
    const char *full = line->view->utf8 ? "█" : "#", *empty = line->view->utf8 ? "░" : ".";
    int filled = whole > 0 ? (int)((part * columns + whole / 2) / whole) : 0;
    for (int i = 0; i < columns; i++)
        put(line, i < filled ? style : 'd', "%s", i < filled ? full : empty);
}

/* The accident that has this process stopped or dead now, or NULL. */
static const struct demo_accident *accident_of(const struct demo_shared *shared, int process)
{
    for (int kind = DEMO_ACCIDENTS - 1; kind >= 0; kind--) {
        const struct demo_accident *a = &shared->accidents[kind];
        if (atomic_load(&a->state) == DEMO_HIT && a->pid == atomic_load(&shared->processes[process].pid))
            return a;
    }
    return NULL;
}

static void put_threads(struct line *line, const struct demo_shared *shared, int process, bool stopped)
{
    bool utf8 = line->view->utf8;
    for (int i = 0; i < shared->order.threads; i++) {
        int state = atomic_load(&shared->cells[process * shared->order.threads + i].state);
        if (state == DEMO_DEAD)
            put(line, 'b', " %s", utf8 ? "✕" : "x");
        else if (stopped)
            put(line, 'w', " %s", utf8 ? "‖" : "=");
        else if (state == DEMO_HOLDING)
            put(line, shared->order.locked ? 'g' : 'b', " %s", utf8 ? "●" : "@");
        else if (state == DEMO_WAITING)
            put(line, 0, " %s", utf8 ? "○" : "o");
        else
            put(line, 'd', " %s", utf8 ? "·" : ".");
    }
}

static void put_process(struct demo_view *view, FILE *out, int process, int most)
{
    const struct demo_shared *shared = view->shared;
    const struct demo_accident *accident = accident_of(shared, process);
    bool stopped = accident == &shared->accidents[DEMO_STOP];
    struct line line = line_begin(view, out);
    int pid = atomic_load(&shared->processes[process].pid);
    char word[DEMO_WORD];

    put(&line, 0, "   process %-2d ", process + 1);
    if (pid)
        put(&line, 'd', "pid %-8d", pid);
    else
        put(&line, 'd', "%-12s", "ended");
    put_threads(&line, shared, process, stopped);
    put(&line, 0, "  %7s ", demo_number(word, demo_sold(shared, process)));
    put_bar(&line, shared->order.locked ? 'g' : 'b', demo_sold(shared, process), most, BESIDE_PROCESS);
    if (accident)
        put(&line, stopped ? 'w' : 'b', "  %s for %s", stopped ? "stopped" : "killed",
            demo_length(word, demo_now_ns() - accident->hit_ns));
    line_end(&line);
}

static int lost_so_far(const struct demo_shared *shared, int sold)
{
    int lost = sold - (shared->order.items - atomic_load(&shared->stock_left));
    return lost > 0 ? lost : 0;
}

static void put_stock(struct demo_view *view, FILE *out, int sold)
{
    const struct demo_shared *shared = view->shared;
    int left = atomic_load(&shared->stock_left), items = shared->order.items, lost = lost_so_far(shared, sold);
    struct line line = line_begin(view, out);
    char word[DEMO_WORD], other[DEMO_WORD];

    put(&line, 0, "   stock ");
    put_bar(&line, 's', left, items, BESIDE_STOCK);
    put(&line, 0, " %s of %s left  sold ", demo_number(word, left), demo_number(other, items));
    put(&line, sold > items ? 'b' : 's', "%s", demo_number(word, sold));
    if (!shared->order.locked && lost)
        put(&line, 'b', "  lost %s", demo_number(word, lost));
    put(&line, 'd', "  %.1f s", (double)(demo_now_ns() - view->began_ns) / 1e9);
    line_end(&line);
}

static void put_legend(struct demo_view *view, FILE *out)
{
    struct line line = line_begin(view, out);
    const char *holds = view->utf8 ? "●" : "@", *waits = view->utf8 ? "○" : "o";
    const char *stopped = view->utf8 ? "‖" : "=", *dead = view->utf8 ? "✕" : "x";

    if (view->shared->order.locked)
        put(&line, 'd', "   %s holds  %s waits  %s killed  %s stopped", holds, waits, dead, stopped);
    else
        put(&line, 'd', "   %s has read the stock and not written it back yet", holds);
    line_end(&line);
}

static void erase(const struct demo_view *view, FILE *out)
{
    if (view->lines)
        fprintf(out, "\033[%dF\033[J", view->lines);
}

static void write_out(const char *text, size_t size)
{
    fwrite(text, 1, size, stdout);
    fflush(stdout);
}

static void ask_size(struct demo_view *view)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row)
        return;
    view->width = size.ws_col;
    view->height = size.ws_row;
}

/* Draws over the last frame: moves the cursor up, rewrites each line and clears its rest. */
static void draw(struct demo_view *view)
{
    const struct demo_shared *shared = view->shared;
    char *text = NULL;
    size_t size = 0;
    int most = 1;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    ask_size(view);
    fputs("\033[?25l", out);
    view->cursor_hidden = true;
    if (view->lines)
        fprintf(out, "\033[%dF", view->lines);
    view->lines = 0;
    put_stock(view, out, demo_sold(shared, -1));
    for (int i = 0; i < shared->order.processes; i++) {
        int sold = demo_sold(shared, i);
        most = sold > most ? sold : most;
    }
    for (int i = 0; i < shared->order.processes && view->lines < view->height - 2; i++)
        put_process(view, out, i, most);
    if (view->lines < view->height - 2)
        put_legend(view, out);
    if (fclose(out) == 0)
        write_out(text, size);
    free(text);
}

static int progress_percent(const struct demo_view *view)
{
    const struct demo_shared *shared = view->shared;
    int64_t of_stock = 100 - (int64_t)atomic_load(&shared->stock_left) * 100 / shared->order.items;
    int64_t of_time = view->limit_ns ? (demo_now_ns() - view->began_ns) * 100 / view->limit_ns : 0;
    int64_t percent = of_stock > of_time ? of_stock : of_time;
    return (int)(percent < 0 ? 0 : percent > 100 ? 100 : percent);
}

static void tell_fifth(struct demo_view *view)
{
    const struct demo_shared *shared = view->shared;
    int percent = progress_percent(view), sold = demo_sold(shared, -1), left = atomic_load(&shared->stock_left);
    char a[DEMO_WORD], b[DEMO_WORD], c[DEMO_WORD];
    struct json fields;

    if (percent / 20 <= view->fifths)
        return;
    view->fifths = percent / 20;
    demo_view_fields(view, &fields, "progress");
    json_int(&fields, "percent", view->fifths * 20);
    json_int(&fields, "sold", sold);
    json_int(&fields, "stock_left", left);
    demo_view_event(view, &fields, "%3d %%  stock %s of %s left, sold %s", view->fifths * 20, demo_number(a, left),
                    demo_number(b, shared->order.items), demo_number(c, sold));
}

void demo_view_phase(struct demo_view *view, const struct demo_shared *shared, int64_t began_ns, int64_t limit_ns)
{
    view->shared = shared;
    view->began_ns = began_ns;
    view->limit_ns = limit_ns;
    view->drawn_ns = 0;
    view->fifths = 0;
}

void demo_view_tick(struct demo_view *view)
{
    int64_t now_ns = demo_now_ns();
    if (!view->shared)
        return;
    if (view->mode != DEMO_LIVE) {
        tell_fifth(view);
    } else if (now_ns - view->drawn_ns >= FRAME_NS) {
        draw(view);
        view->drawn_ns = now_ns;
    }
}

void demo_view_phase_end(struct demo_view *view)
{
    if (view->mode == DEMO_LIVE && view->lines) {
        erase(view, stdout);
        view->lines = 0;
        fflush(stdout);
    }
    view->shared = NULL;
}

static int64_t at_ns(const struct demo_view *view) /* since the phase began */
{
    return view->shared ? demo_now_ns() - view->began_ns : 0;
}

/* A line above the block, which is then redrawn below it. `since_ns` < 0: the line continues the one before. */
static void put_above(struct demo_view *view, int64_t since_ns, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static void put_above(struct demo_view *view, int64_t since_ns, const char *format, va_list args)
{
    if (view->mode == DEMO_LIVE) {
        erase(view, stdout);
        view->lines = 0;
    }
    if (since_ns < 0)
        printf("%13s", "");
    else
        printf("   %s%6.2f s%s  ", demo_on(view, 'd'), (double)since_ns / 1e9, demo_off(view));
    vprintf(format, args);
    putchar('\n');
    if (view->mode == DEMO_LIVE && view->shared)
        draw(view);
    fflush(stdout);
}

void demo_view_fields(const struct demo_view *view, struct json *fields, const char *event)
{
    json_begin(fields);
    json_string(fields, "event", event);
    if (view->shared) /* its time in the current phase */
        json_int(fields, "at_ms", at_ns(view) / 1000000);
}

void demo_view_event(struct demo_view *view, struct json *fields, const char *format, ...)
{
    va_list args;

    if (view->mode == DEMO_JSON) {
        json_end(fields);
        write_out(fields->line, fields->len);
        return;
    }
    va_start(args, format);
    put_above(view, at_ns(view), format, args);
    va_end(args);
}

void demo_view_more(struct demo_view *view, const char *format, ...)
{
    va_list args;

    if (view->mode == DEMO_JSON)
        return;
    va_start(args, format);
    put_above(view, -1, format, args);
    va_end(args);
}

void demo_view_line(struct demo_view *view, const char *format, ...)
{
    va_list args;
    if (view->mode == DEMO_JSON)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void demo_view_close(struct demo_view *view)
{
    demo_view_phase_end(view);
    if (view->cursor_hidden)
        fputs("\033[?25h", stdout);
    fflush(stdout);
}
