/* around.c - see around.h. */
#include "around.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define NAMED "/memfd:"
#define ENDS " (deleted)" /* as the kernel shows the name of a memfd */
#define UP_MOST 4096      /* ancestors: pids that are read one by one could form a circle */

/* "<client id>:<hold id> ...": the length of the client's id. All of it if there is none. */
static int client_len(const char *holders)
{
    size_t word = strcspn(holders, " "), len = word;
    while (len > 0 && holders[len - 1] != ':')
        len--;
    return (int)(len > 0 ? len - 1 : word);
}

int around_mark(const char *holders)
{
    char name[250]; /* the longest that a memfd may have */
    snprintf(name, sizeof name, "%.*s", client_len(holders), holders);
    return memfd_create(name, MFD_CLOEXEC);
}

static bool is_word_of(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = words; at && len && (at = strstr(at, word)) != NULL; at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

/* 0: none. */
static pid_t parent_of(pid_t pid, bool *is_helper)
{
    char path[64], line[128];
    int parent = 0;
    *is_helper = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "PPid: %d", &parent) != 1)
        *is_helper = *is_helper || strcmp(line, "Name:\thasplock-helper\n") == 0;
    if (status)
        fclose(status);
    return parent;
}

static bool is_marked(pid_t helper, const char *holder)
{
    char path[320], target[320], wanted[320];
    const struct dirent *fd;
    bool found = false;
    snprintf(wanted, sizeof wanted, NAMED "%.*s" ENDS, client_len(holder), holder);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)helper);
    DIR *fds = opendir(path);
    while (fds && !found && (fd = readdir(fds)) != NULL) {
        ssize_t len = readlinkat(dirfd(fds), fd->d_name, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (fds)
        closedir(fds);
    return found;
}

/* Is there a helper above us, with that mark? holder NULL: any helper. */
static bool is_above(const char *holder)
{
    bool is_helper;
    pid_t pid = getppid();
    for (int i = 0; pid > 0 && i < UP_MOST; i++) {
        pid_t at = pid;
        pid = parent_of(at, &is_helper);
        if (is_helper && (!holder || is_marked(at, holder)))
            return true;
    }
    return false;
}

bool around_any(void)
{
    const char *owners = getenv("HASPLOCK_OWNERS");
    return owners ? *owners != '\0' : is_above(NULL);
}

bool around_has(const char *holder)
{
    const char *owners = getenv("HASPLOCK_OWNERS");
    return owners ? is_word_of(owners, holder) : *holder && is_above(holder);
}
