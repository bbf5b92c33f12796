/* demo_masters.h - private redis-servers that know nothing of each other, for --redlock: on Unix sockets in the demo's
 * folder. They keep nothing, and end with the demo. */
#ifndef HLK_DEMO_MASTERS_H
#define HLK_DEMO_MASTERS_H

#include <stdbool.h>
#include <sys/types.h>

#define DEMO_MASTERS 3

struct demo_masters {                   /* zeroed: none */
    pid_t pid[DEMO_MASTERS];            /* 0: not started, or ended */
    char socket[DEMO_MASTERS][96];
    char url[DEMO_MASTERS * 104];       /* redlock:// of all of them */
};

/* False: the reason is printed. demo_masters_end is still to be called. */
bool demo_masters_start(struct demo_masters *masters, const char *dir);
/* By SIGKILL. The others go on. Returns its pid. */
pid_t demo_masters_kill(struct demo_masters *masters, int i);
void demo_masters_end(struct demo_masters *masters);    /* and removes their sockets */

#endif
