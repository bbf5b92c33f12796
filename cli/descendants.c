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

#define NAME_SIZE sizeof((struct descendants_refused *)0)->name
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

static void name_of(pid_t pid, char name[NAME_SIZE])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *comm = fopen(path, "re");
    if (!comm || !fgets(name, NAME_SIZE, comm))
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    if (comm)
        fclose(comm);
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

/* Not by /proc/PID/stat, whose reader waits until a process that is in execve(2) has got the CPU. */
static bool is_a_local_server(pid_t pid)
{
    char name[NAME_SIZE];
    name_of(pid, name);
    return strcmp(name, "hasplock-local") == 0;
}

static bool has_ended(pid_t pid)
{
    char path[64], line[128], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "State: %c", &state) != 1)
        ;
    if (status)
        fclose(status);
    return state == 'Z' || state == 'X';
}

static bool send_to(pid_t pid, int signal, struct descendants_refused *refused)
{
    if (kill(pid, signal) == 0)
        return true;
    if (errno != ESRCH && refused->count++ == 0) {
        refused->pid = pid;
        refused->why = errno;
        name_of(pid, refused->name);
    }
    return false;
}

/* Adds the descendants that `pids` does not have yet, and signals each as soon as it is found (signal 0: it does not).
 * Returns whether there was a new one. */
static bool look(struct pids *pids, pid_t root, int signal, int *reached, struct descendants_refused *refused)
{
    struct pids seen = { 0 };
    bool is_news = false;
    add_children(&seen, root);
    for (size_t i = 0; i < seen.count; i++) {
        pid_t pid = seen.all[i];
        if (is_a_local_server(pid))
            continue;
        if (!contains(pids, pid)) {
            is_news = true;
            add(pids, pid);
            *reached += signal && send_to(pid, signal, refused);
        }
        add_children(&seen, pid);
    }
    free(seen.all);
    return is_news;
}

int descendants_signal(pid_t root, int signal, struct descendants_refused *refused)
{
    struct pids pids = { 0 };
    int reached = 0, looks = 0;
    *refused = (struct descendants_refused){ 0 };
    while (look(&pids, root, signal, &reached, refused) && ++looks < LOOKS_MOST)
        ;
    free(pids.all);
    return reached;
}

int descendants_shown(pid_t root, char *buf, size_t size)
{
    struct pids pids = { 0 };
    int alive = 0, unused = 0;
    size_t len = 0;
    look(&pids, root, 0, &unused, NULL);
    buf[0] = '\0';
    for (size_t i = 0; i < pids.count; i++) {
        if (has_ended(pids.all[i]))
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
