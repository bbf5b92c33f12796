/* no_fork.c - preloaded into hasplock: a host on which no process can be made. */
#include <errno.h>
#include <unistd.h>

pid_t fork(void)
{
    errno = EAGAIN;
    return -1;
}
