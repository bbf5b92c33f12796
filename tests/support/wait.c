#include "support/wait.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int64_t test_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t test_now_ms(void)
{
    return test_now_ns() / 1000000;
}

void test_sleep_ms(int64_t ms)
{
    struct timespec left = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

char test_thread_state(pid_t thread)
{
    char path[64], state = '?';
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

void (*test_on_vain_wait)(void);

/* The report may hang, and end the process: the line comes first. */
static _Noreturn void give_up_in_vain(const char *file, int line, const char *what)
{
    fprintf(stderr, "[----] %s:%d: waited %d ms in vain for: %s\n", file, line, WAIT_MS, what);
    fflush(stderr);
    if (test_on_vain_wait)
        test_on_vain_wait();
    fflush(stderr);
    abort();
}

void test_wait_on(int64_t started_ns, const char *file, int line, const char *what)
{
    if (test_now_ns() - started_ns > (int64_t)WAIT_MS * 1000000)
        give_up_in_vain(file, line, what);
    test_sleep_ms(1);
}

void test_give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("[----] ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    abort();
}
