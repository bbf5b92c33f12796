/* The kernel shows the memory of the process where execve put arguments and environment. /proc/self/stat has its
 * addresses. It is written through /proc/self/mem, where a bad address is an error and not a fault. */
#include "net/title.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STAT_MOST 2048
#define FIELD_STATE 3 /* the first field after the name, which may contain blanks; proc_pid_stat(5) */
#define FIELD_ARG_START 48

struct area {
    unsigned long arg_start, arg_end, env_start, env_end;
};

static const char *title_read_number(const char *at, unsigned long *number)
{
    *number = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        *number = *number * 10 + (unsigned long)(*at - '0');
    return *at == ' ' ? at + 1 : at;
}

/* False: unknown. */
static int read_area(struct area *area)
{
    char stat[STAT_MOST];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
    if (fd >= 0)
        close(fd);
    stat[len > 0 ? len : 0] = '\0';
    const char *at = strrchr(stat, ')');
    if (!at || at[1] != ' ')
        return 0;
    at += 2;
    for (int field = FIELD_STATE; field < FIELD_ARG_START; field++) {
        at = strchr(at, ' ');
        if (!at)
            return 0;
        at++;
    }
    at = title_read_number(at, &area->arg_start);
    at = title_read_number(at, &area->arg_end);
    at = title_read_number(at, &area->env_start);
    (void)title_read_number(at, &area->env_end);
    return area->arg_start && area->arg_end > area->arg_start && area->env_end >= area->env_start;
}

static void erase(int memory, unsigned long from, unsigned long to)
{
    static const char zeros[512];
    while (from < to) {
        size_t n = to - from < sizeof zeros ? to - from : sizeof zeros;
        if (pwrite(memory, zeros, n, (off_t)from) != (ssize_t)n)
            return;
        from += n;
    }
}

/* The last byte stays NUL: else the kernel shows the environment as a part of the title. Returns where the text
 * ends. */
static unsigned long title_put(int memory, unsigned long at, unsigned long last, const char *text)
{
    size_t len = strlen(text), room = at < last ? last - at : 0;
    ssize_t n = pwrite(memory, text, len < room ? len : room, (off_t)at);
    return n > 0 ? at + (unsigned long)n : at;
}

void hlk_title_set(const char *name, const char *about)
{
    struct area area;
    (void)prctl(PR_SET_NAME, name);
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (memory >= 0 && read_area(&area)) {
        unsigned long last = area.arg_end - 1;
        erase(memory, area.arg_start, area.arg_end);
        erase(memory, area.env_start, area.env_end);
        unsigned long at = title_put(memory, area.arg_start, last, name);
        at = title_put(memory, at, last, " ");
        (void)title_put(memory, at, last, about);
    }
    if (memory >= 0)
        close(memory);
    (void)prctl(PR_SET_DUMPABLE, 0);
}
