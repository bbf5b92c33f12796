#include "demo_masters.h"
#include "demo_shared.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_NS INT64_C(10000000000) /* limit for the start of a server */

static bool answers(const char *socket_path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    bool yes = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

/* In the child. */
static void become_server(pid_t parent, const char *dir, const char *socket_path)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* Ctrl-C goes to the parent too, which ends the servers */
    if (getppid() == parent && null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(null, 2) >= 0)
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_path, "--dir", dir, "--save", "",
               "--appendonly", "no", (char *)NULL);
    _exit(127);
}

/* False: it has ended, or does not come up. */
static bool master_wait(struct demo_masters *masters, int i)
{
    int64_t until_ns = demo_now_ns() + START_NS;
    while (!answers(masters->socket[i])) {
        if (waitpid(masters->pid[i], NULL, WNOHANG) == masters->pid[i]) {
            masters->pid[i] = 0;
            say(SAY_ERROR, "error", "redis-server does not start; it must be in PATH");
            return false;
        }
        if (demo_now_ns() > until_ns) {
            say(SAY_ERROR, "error", "redis-server does not answer at %s", masters->socket[i]);
            return false;
        }
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    }
    return true;
}

bool demo_masters_start(struct demo_masters *masters, const char *dir)
{
    pid_t parent = getpid();
    int len = snprintf(masters->url, sizeof masters->url, "redlock://");

    for (int i = 0; i < DEMO_MASTERS; i++) {
        snprintf(masters->socket[i], sizeof masters->socket[i], "%s/master-%d", dir, i + 1);
        len += snprintf(masters->url + len, sizeof masters->url - (size_t)len, "%sunix:%s", i ? "," : "",
                        masters->socket[i]);
        pid_t pid = fork();
        if (pid == 0)
            become_server(parent, dir, masters->socket[i]);
        if (pid < 0) {
            say(SAY_ERROR, "error", "cannot start a process: %s", strerror(errno));
            return false;
        }
        masters->pid[i] = pid;
    }
    for (int i = 0; i < DEMO_MASTERS; i++)
        if (!master_wait(masters, i))
            return false;
    return true;
}

pid_t demo_masters_kill(struct demo_masters *masters, int i)
{
    pid_t pid = masters->pid[i];
    if (!pid)
        return 0;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    masters->pid[i] = 0;
    return pid;
}

void demo_masters_end(struct demo_masters *masters)
{
    for (int i = 0; i < DEMO_MASTERS; i++) {
        (void)demo_masters_kill(masters, i);
        if (masters->socket[i][0])
            unlink(masters->socket[i]);
    }
}
