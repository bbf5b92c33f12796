/* descendants.c - see descendants.h. */
#include "descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOKS_MOST 100 /* of one call, at processes that fork faster than they are signalled */

struct pids {
    pid_t *all;
    size_t count, room;
};

static bool contains(const struct pids *pids, pid_t pid)
{
    for (size_t i = 0; i < pids->count; i++)
        if (pids->all[i] == pid)
            return true;
    return false;
}

/* Without memory the rest is left for the caller's next look. */
static void add(struct pids *pids, pid_t pid)
{
    if (pids->count == pids->room) {
        size_t room = pids->room ? 2 * pids->room : 64;
        pid_t *all = realloc(pids->all, room * sizeof *all);
        if (!all)
            return;
        pids->all = all;
        pids->room = room;
    }
    pids->all[pids->count++] = pid;
}

static void add_children_of_thread(struct pids *pids, pid_t pid, const char *thread)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, thread);
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &child) == 1)
        if (!contains(pids, child))
            add(pids, child);
    if (children)
        fclose(children);
}

static void add_children(struct pids *pids, pid_t pid)
{
    char path[64];
    const struct dirent *thread;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    while (threads && (thread = readdir(threads)) != NULL)
        if (isdigit((unsigned char)thread->d_name[0]))
            add_children_of_thread(pids, pid, thread->d_name);
    if (threads)
        closedir(threads);
}

/* The name, and the letter of the state: Z for one that has ended. */
static char look_at(pid_t pid, char name[16])
{
    char path[64], line[256] = "", state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "re");
    const char *begin = stat && fgets(line, sizeof line, stat) ? strchr(line, '(') : NULL;
    const char *end = begin ? strrchr(line, ')') : NULL;
    if (end && end[1] == ' ')
        state = end[2];
    snprintf(name, 16, "%.*s", end ? (int)(end - begin - 1) : 0, end ? begin + 1 : "");
    if (stat)
        fclose(stat);
    return state;
}

static bool is_a_local_server(pid_t pid)
{
    char name[16];
    look_at(pid, name);
    return strcmp(name, "hasplock-local") == 0;
}

static void look(struct pids *pids, pid_t root)
{
    pids->count = 0;
    add_children(pids, root);
    for (size_t i = 0; i < pids->count; i++) {
        if (is_a_local_server(pids->all[i]))
            pids->all[i--] = pids->all[--pids->count];
        else
            add_children(pids, pids->all[i]);
    }
}

static bool send_to(pid_t pid, int signal, struct descendants_refused *refused)
{
    if (kill(pid, signal) == 0)
        return true;
    if (errno != ESRCH && refused->count++ == 0) {
        refused->pid = pid;
        refused->why = errno;
        look_at(pid, refused->name);
    }
    return false;
}

int descendants_signal(pid_t root, int signal, struct descendants_refused *refused)
{
    struct pids pids = { 0 }, known = { 0 };
    int reached = 0;
    bool is_news = true;
    *refused = (struct descendants_refused){ 0 };
    for (int looks = 0; is_news && looks < LOOKS_MOST; looks++) {
        is_news = false;
        look(&pids, root);
        for (size_t i = 0; i < pids.count; i++) {
            if (contains(&known, pids.all[i]))
                continue;
            is_news = true;
            add(&known, pids.all[i]);
            reached += send_to(pids.all[i], signal, refused);
        }
    }
    free(pids.all);
    free(known.all);
    return reached;
}

int descendants_shown(pid_t root, char *buf, size_t size)
{
    struct pids pids = { 0 };
    char name[16];
    int alive = 0;
    size_t len = 0;
    look(&pids, root);
    buf[0] = '\0';
    for (size_t i = 0; i < pids.count; i++) {
        if (look_at(pids.all[i], name) == 'Z')
            continue;
        alive++;
        if (len + 32 < size)
            len += (size_t)snprintf(buf + len, size - len, "%s%d", alive > 1 ? ", " : "", (int)pids.all[i]);
        else if (size - len > 4 && buf[len - 1] != '.')
            len += (size_t)snprintf(buf + len, size - len, " ...");
    }
    free(pids.all);
    return alive;
}

/* No child ends during this look for us: only we could reap it. One that is new is behind those that are looked at. */
bool descendants_are_gone(void)
{
    struct pids pids = { 0 };
    bool found = false;
    add_children(&pids, getpid());
    for (size_t i = 0; i < pids.count && !found; i++)
        found = !is_a_local_server(pids.all[i]);
    bool gone = pids.count > 0 && !found;
    free(pids.all);
    return gone;
}
