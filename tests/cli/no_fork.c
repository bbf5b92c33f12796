/* no_fork.c - preloaded into hasplock: a host on which no process can be made, after HLK_FORKS of them. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pid_t fork(void)
{
    static int forks;
    const char *most = getenv("HLK_FORKS");
    void *next = dlsym(RTLD_NEXT, "fork");
    pid_t (*real)(void);
    memcpy(&real, &next, sizeof real); /* ISO C knows no way from an object pointer to a function */
    if (forks++ < (most ? atoi(most) : 0))
        return real();
    errno = EAGAIN;
    return -1;
}
