#include "base/logger.h"

#include "base/clock.h"
#include "base/debug.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* nothing is taken under it; guards: */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /*   running has become false */
static bool running;
static char waiting[HLK_LOGGER_BYTES];
static size_t waiting_len;
static unsigned long long dropped; /* lines whose loss was not written yet */

static char leaving[HLK_LOGGER_BYTES]; /* the thread's own */

/* --- the thread */

/* False: not everything was written. Blocks. */
static bool write_out(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
            (void)poll(&room, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        } else if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* Returns how many lines were lost. */
static unsigned long long write_lines(const char *lines, size_t len, unsigned long long lost_before)
{
    HLK_DEBUG_ASSERT(len > 0 && lines[len - 1] == '\n');
    unsigned long long lost = 0;
    for (const char *line = lines, *end; line < lines + len; line = end) {
        end = (const char *)memchr(line, '\n', (size_t)(lines + len - line)) + 1;
        lost += !write_out(line, (size_t)(end - line));
    }
    lost += lost_before;
    if (lost == 0)
        return 0;
    char note[80];
    int size = snprintf(note, sizeof note, "hasplock: warning: %llu log lines were dropped\n", lost);
    return write_out(note, (size_t)size) ? 0 : lost;
}

static void *logger_thread_main(void *arg)
{
    pthread_mutex_lock(&mu);
    HLK_DEBUG_ASSERT(running);
    while (waiting_len > 0) {
        size_t len = waiting_len;
        unsigned long long lost = dropped;
        memcpy(leaving, waiting, len);
        waiting_len = 0;
        dropped = 0;
        pthread_mutex_unlock(&mu);
        lost = write_lines(leaving, len, lost);
        pthread_mutex_lock(&mu);
        dropped += lost;
    }
    running = false;
    pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&mu);
    return arg;
}

/* The mutex is held. If no thread can be started, the lines wait for the next call. */
static void logger_run(void)
{
    HLK_DEBUG_ASSERT(waiting_len <= sizeof waiting);
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, old;
    if (running || waiting_len == 0 || pthread_attr_init(&detached) != 0)
        return;
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    running = pthread_create(&thread, &detached, logger_thread_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&detached);
}

/* --- fork */

static void logger_before_fork(void)
{
    pthread_mutex_lock(&mu);
}

static void logger_after_fork_parent(void)
{
    pthread_mutex_unlock(&mu);
}

static void logger_after_fork_child(void)
{
    running = false;
    waiting_len = 0;
    dropped = 0;
    (void)pthread_cond_init(&idle, NULL); /* a thread of the parent may have waited on it */
    pthread_mutex_unlock(&mu);
}

static void logger_start(void)
{
    (void)pthread_atfork(logger_before_fork, logger_after_fork_parent, logger_after_fork_child);
}

/* --- callers */

void hlk_logger_add(const char *line, size_t len)
{
    HLK_DEBUG_ASSERT(len > 0 && line[len - 1] == '\n');
    pthread_once(&once, logger_start);
    pthread_mutex_lock(&mu);
    if (len > sizeof waiting - waiting_len) {
        dropped++;
    } else {
        memcpy(waiting + waiting_len, line, len);
        waiting_len += len;
    }
    logger_run();
    pthread_mutex_unlock(&mu);
}

bool hlk_logger_flush(int64_t ms)
{
    HLK_DEBUG_ASSERT(ms >= 0);
    struct timespec until = hlk_clock_monotonic_at(hlk_clock_ms() + ms);
    int rc = 0;
    pthread_mutex_lock(&mu);
    logger_run();
    while (running && rc == 0)
        rc = pthread_cond_clockwait(&idle, &mu, CLOCK_MONOTONIC, &until);
    bool all = !running && waiting_len == 0;
    pthread_mutex_unlock(&mu);
    return all;
}

__attribute__((destructor)) static void at_exit(void)
{
    (void)hlk_logger_flush(HLK_LOGGER_EXIT_MS);
}
