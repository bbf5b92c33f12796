/* main.c - runs the tests of one program for the shim beside it: each in a process of its own, as Criterion does.
 *
 *     test_x [--list] [--filter SUITE/NAME] [-jN] [--timeout SECONDS]
 *
 * A test passes when its process ends as the test announced: exit code (0 unless .exit_code) or signal (.signal),
 * within its timeout. The test's process leaves by exit(), so that a sanitizer's own verdict is in the exit code.
 */
#include "criterion/criterion.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77 };

struct child {
    pid_t pid; /* 0: free */
    const struct shim_test *test;
    double started, deadline; /* seconds; deadline 0: none */
    bool timed_out;
};

static struct shim_test *tests, **tests_end = &tests;
static struct shim_suite *suites;
static double default_timeout;
static struct {
    int tested, passing, failing, crashing, skipped;
} sum;

static jmp_buf end_of_test; /* set in the test's process, used by its main thread only */
static pthread_t test_thread;
static bool in_test, failed;

void shim_add_test(struct shim_test *test)
{
    *tests_end = test;
    tests_end = &test->next;
}

void shim_add_suite(struct shim_suite *suite)
{
    suite->next = suites;
    suites = suite;
}

static void leave_test(int code)
{
    if (in_test && pthread_equal(test_thread, pthread_self()))
        longjmp(end_of_test, 1);
    _exit(code); /* in another thread or in a fixture: nothing more can be cleaned up */
}

void shim_fail(bool fatal, const char *file, int line, const char *what, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "[----] %s:%d: Assertion failed: %s%s%s\n", file, line, what, text[1] ? ":" : "",
            text[1] ? text : "");
    failed = true;
    if (fatal)
        leave_test(EXIT_FAILED);
}

void shim_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("[SKIP]", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(EXIT_SKIPPED);
}

static const struct shim_options *suite_options(const char *name)
{
    static const struct shim_options none;
    for (const struct shim_suite *suite = suites; suite; suite = suite->next)
        if (strcmp(suite->name, name) == 0)
            return &suite->options;
    return &none;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void run_here(const struct shim_test *test)
{
    const struct shim_options *suite = suite_options(test->suite);
    if (suite->init)
        suite->init();
    if (test->options.init)
        test->options.init();
    test_thread = pthread_self();
    in_test = true;
    if (setjmp(end_of_test) == 0)
        test->run();
    in_test = false;
    if (test->options.fini)
        test->options.fini();
    if (suite->fini)
        suite->fini();
    exit(failed ? EXIT_FAILED : 0);
}

static void start(struct child *child, const struct shim_test *test, const sigset_t *mask)
{
    double timeout = test->options.timeout;
    if (timeout <= 0)
        timeout = suite_options(test->suite)->timeout;
    if (timeout <= 0)
        timeout = default_timeout;
    fflush(NULL);
    child->test = test;
    child->timed_out = false;
    child->started = seconds();
    child->deadline = timeout > 0 ? child->started + timeout : 0;
    child->pid = fork();
    if (child->pid < 0) {
        perror("fork");
        exit(2);
    }
    if (child->pid == 0) {
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, mask, NULL);
        run_here(test);
    }
}

static void judge(const struct child *child, int status)
{
    const struct shim_test *test = child->test;
    const char *verdict = "PASS";
    char how[64];
    snprintf(how, sizeof how, WIFSIGNALED(status) ? "signal %d" : "exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    sum.tested++;
    if (child->timed_out) {
        verdict = "FAIL";
        snprintf(how, sizeof how, "timed out");
        sum.failing++;
    } else if (WIFSIGNALED(status) && WTERMSIG(status) != test->options.signal) {
        verdict = "CRASH";
        sum.crashing++;
        sum.failing++;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED && !test->options.exit_code) {
        verdict = "SKIP";
        sum.tested--;
        sum.skipped++;
    } else if (WIFEXITED(status) && (test->options.signal || WEXITSTATUS(status) != test->options.exit_code)) {
        verdict = "FAIL";
        sum.failing++;
    } else {
        sum.passing++;
    }
    fprintf(stderr, "[%s] %s::%s (%.2fs)%s%s\n", verdict, test->suite, test->name, seconds() - child->started,
            strcmp(verdict, "PASS") == 0 ? "" : ": ", strcmp(verdict, "PASS") == 0 ? "" : how);
}

/* Waits until a child ends or its time is over, and frees its place. */
static void reap(struct child *children, int jobs, const sigset_t *chld)
{
    for (;;) {
        double next = 0, now = seconds();
        for (int i = 0; i < jobs; i++) {
            int status;
            if (!children[i].pid)
                continue;
            if (waitpid(children[i].pid, &status, WNOHANG) == children[i].pid) {
                kill(-children[i].pid, SIGKILL); /* processes that it left: they would keep ctest waiting for output */
                judge(&children[i], status);
                children[i].pid = 0;
                return;
            }
            if (children[i].deadline > 0 && !children[i].timed_out && now >= children[i].deadline) {
                children[i].timed_out = true;
                kill(children[i].pid, SIGKILL);
            }
            if (children[i].deadline > 0 && !children[i].timed_out && (next == 0 || children[i].deadline < next))
                next = children[i].deadline;
        }
        double left = next > 0 ? next - now : 3600;
        struct timespec wait = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
        sigtimedwait(chld, NULL, &wait);
    }
}

static bool wanted(const struct shim_test *test, const char *filter)
{
    char name[512];
    snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
    return !filter || fnmatch(filter, name, 0) == 0;
}

static const char *value(int argc, char **argv, int *i, const char *option)
{
    size_t len = strlen(option);
    if (strncmp(argv[*i], option, len) != 0)
        return NULL;
    if (argv[*i][len] == '=')
        return argv[*i] + len + 1;
    if (argv[*i][len] == '\0' && *i + 1 < argc)
        return argv[++*i];
    return NULL;
}

static void run_all(const char *filter, int jobs)
{
    struct child *children = calloc((size_t)jobs, sizeof *children);
    sigset_t chld, before;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, &before);
    int running = 0;
    for (const struct shim_test *test = tests; test; test = test->next) {
        if (!wanted(test, filter) || test->options.disabled || suite_options(test->suite)->disabled)
            continue;
        if (running == jobs) {
            reap(children, jobs, &chld);
            running--;
        }
        int place = 0;
        while (children[place].pid)
            place++;
        start(&children[place], test, &before);
        running++;
    }
    for (; running > 0; running--)
        reap(children, jobs, &chld);
    free(children);
}

int main(int argc, char **argv)
{
    const char *filter = NULL, *text;
    int jobs = 1;
    bool list = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if ((text = value(argc, argv, &i, "--filter")))
            filter = text;
        else if ((text = value(argc, argv, &i, "--timeout")))
            default_timeout = atof(text);
        else if ((text = value(argc, argv, &i, "--jobs")) || (text = value(argc, argv, &i, "-j")))
            jobs = atoi(text);
        else if (strncmp(argv[i], "-j", 2) == 0)
            jobs = atoi(argv[i] + 2); /* what else Criterion knows is accepted and means nothing here */
    }
    if (list) {
        for (const struct shim_test *test = tests; test; test = test->next)
            printf("%s/%s\n", test->suite, test->name);
        return 0;
    }
    run_all(filter, jobs > 0 ? jobs : 1);
    fprintf(stderr, "[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: %d%s\n", sum.tested,
            sum.passing, sum.failing, sum.crashing, sum.skipped ? " (some skipped)" : "");
    return sum.failing == 0 ? 0 : 1;
}
