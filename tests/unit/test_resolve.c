/* Name lookup on a thread of its own. No network: getaddrinfo is replaced, or gets only numbers. */
#include "net/resolve.h"

#include "base/mem.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int calls, hanging, masked;
static sem_t go_on;
static struct hlk_error error;

static void init(void)
{
    sem_init(&go_on, 0, 0);
}

static void fini(void)
{
    hlk_mem_fail_after(-1);
    hlk_resolve_play(NULL);
}

TestSuite(resolve, .init = init, .fini = fini, .timeout = 60);

/* Finds 127.0.0.1 for every name. */
static int finds(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    sigset_t blocked;
    (void)host;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    atomic_store(&masked, sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1));
    atomic_fetch_add(&calls, 1);
    return getaddrinfo("127.0.0.1", service, hints, out);
}

static int hangs(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    atomic_fetch_add(&hanging, 1);
    while (sem_wait(&go_on) != 0)
        ;
    int fault = finds(host, service, hints, out);
    atomic_fetch_sub(&hanging, 1);
    return fault;
}

static int finds_none(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service, (void)hints, (void)out;
    return EAI_NONAME;
}

static int breaks(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service, (void)hints, (void)out;
    errno = EMFILE;
    return EAI_SYSTEM;
}

static bool is_readable(const struct hlk_resolve *lookup, int ms)
{
    struct pollfd fd = { .fd = hlk_resolve_fd(lookup), .events = POLLIN };
    return poll(&fd, 1, ms) == 1;
}

static struct hlk_resolve *start(int (*how)(const char *, const char *, const struct addrinfo *, struct addrinfo **),
                                 const char *host)
{
    hlk_resolve_play(how);
    struct hlk_resolve *lookup = hlk_resolve_start(host, 7000, &error);
    cr_assert_not_null(lookup, "%s", error.text);
    return lookup;
}

static struct addrinfo *take(struct hlk_resolve *lookup)
{
    struct addrinfo *found;
    cr_assert(is_readable(lookup, WAIT_MS));
    cr_assert_eq(hlk_resolve_take(lookup, &found, &error), HLK_OK, "%s", error.text);
    return found;
}

Test(resolve, numbers_are_answered_at_once_and_without_a_thread)
{
    struct hlk_resolve *lookup = start(finds, "127.0.0.2");
    cr_assert(is_readable(lookup, 0));
    struct addrinfo *found = take(lookup);
    struct sockaddr_in address;
    memcpy(&address, found->ai_addr, sizeof address);
    cr_assert_eq(address.sin_family, AF_INET);
    cr_assert_eq(address.sin_addr.s_addr, htonl(0x7f000002));
    cr_assert_eq(address.sin_port, htons(7000));
    cr_assert_eq(found->ai_socktype, SOCK_STREAM);
    cr_assert_eq(atomic_load(&calls), 0);
    freeaddrinfo(found);
    hlk_resolve_drop(lookup);
}

Test(resolve, ipv6_numbers_too)
{
    struct hlk_resolve *lookup = start(finds, "::1");
    struct addrinfo *found = take(lookup);
    cr_assert_eq(found->ai_family, AF_INET6);
    cr_assert_eq(atomic_load(&calls), 0);
    freeaddrinfo(found);
    hlk_resolve_drop(lookup);
}

Test(resolve, names_are_looked_up_by_the_thread)
{
    struct hlk_resolve *lookup = start(finds, "localhost"); /* getaddrinfo itself would find it at once */
    struct addrinfo *found = take(lookup);
    struct sockaddr_in address;
    memcpy(&address, found->ai_addr, sizeof address);
    cr_assert_eq(address.sin_port, htons(7000));
    cr_assert_eq(atomic_load(&calls), 1);
    freeaddrinfo(found);
    hlk_resolve_drop(lookup);
}

Test(resolve, its_thread_takes_no_signals)
{
    struct hlk_resolve *lookup = start(finds, "redis.example");
    freeaddrinfo(take(lookup));
    cr_assert(atomic_load(&masked));
    hlk_resolve_drop(lookup);
}

Test(resolve, signals_of_the_caller_stay_as_they_were)
{
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    struct hlk_resolve *lookup = start(finds, "redis.example");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_assert_eq(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    freeaddrinfo(take(lookup));
    hlk_resolve_drop(lookup);
}

Test(resolve, is_busy_while_it_hangs)
{
    struct addrinfo *found;
    struct hlk_resolve *lookup = start(hangs, "slow.example");
    WAIT_FOR(atomic_load(&hanging) == 1);
    cr_assert_not(is_readable(lookup, 0));
    cr_assert_eq(hlk_resolve_take(lookup, &found, &error), HLK_BUSY);
    cr_assert_null(found);
    sem_post(&go_on);
    freeaddrinfo(take(lookup));
    hlk_resolve_drop(lookup);
}

Test(resolve, one_that_hangs_may_be_left)
{
    struct hlk_resolve *lookup = start(hangs, "slow.example");
    WAIT_FOR(atomic_load(&hanging) == 1);
    hlk_resolve_drop(lookup);
    sem_post(&go_on);
    WAIT_FOR(atomic_load(&hanging) == 0);
}

Test(resolve, one_that_hangs_does_not_hold_up_others)
{
    struct hlk_resolve *slow = start(hangs, "slow.example");
    WAIT_FOR(atomic_load(&hanging) == 1);
    struct hlk_resolve *quick = start(finds, "quick.example");
    freeaddrinfo(take(quick));
    hlk_resolve_drop(quick);
    cr_assert_not(is_readable(slow, 0));
    sem_post(&go_on);
    freeaddrinfo(take(slow));
    hlk_resolve_drop(slow);
}

Test(resolve, an_answer_nobody_takes_is_freed)
{
    struct hlk_resolve *lookup = start(finds, "redis.example");
    cr_assert(is_readable(lookup, WAIT_MS));
    hlk_resolve_drop(lookup);
}

static int breaks_for(int why, int fault)
{
    errno = why;
    return fault;
}

static int forgets(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service, (void)hints, (void)out;
    return breaks_for(ENFILE, EAI_NONAME); /* glibc's result when it cannot open /etc/hosts */
}

static int runs_dry(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service, (void)hints, (void)out;
    return breaks_for(0, EAI_MEMORY);
}

static int is_barred(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service, (void)hints, (void)out;
    return breaks_for(EACCES, EAI_SYSTEM);
}

static void fails(int (*how)(const char *, const char *, const struct addrinfo *, struct addrinfo **),
                  enum hlk_status status, const char *text)
{
    struct addrinfo *found;
    struct hlk_resolve *lookup = start(how, "no.example");
    cr_assert(is_readable(lookup, WAIT_MS));
    cr_assert_eq(hlk_resolve_take(lookup, &found, &error), status);
    cr_assert_null(found);
    cr_assert_str_eq(error.text, text);
    hlk_resolve_drop(lookup);
}

Test(resolve, a_name_nobody_knows_is_told)
{
    fails(finds_none, HLK_E_CONNECT, "no address found for \"no.example\": Name or service not known");
}

Test(resolve, a_fault_of_the_system_is_told_as_such)
{
    fails(is_barred, HLK_E_CONNECT, "no address found for \"no.example\": Permission denied");
}

Test(resolve, what_this_process_lacks_is_no_fault_of_the_servers)
{
    fails(breaks, HLK_E_OS, "lookup of \"no.example\": Too many open files");
    fails(forgets, HLK_E_OS, "lookup of \"no.example\": Too many open files in system");
    fails(runs_dry, HLK_E_OS, "lookup of \"no.example\": Memory allocation failure");
}

Test(resolve, dropping_none_is_fine)
{
    hlk_resolve_drop(NULL);
}

Test(resolve, says_when_there_is_no_memory)
{
    for (int n = 1; n <= 2; n++) {
        hlk_mem_fail_once(n);
        cr_assert_null(hlk_resolve_start("redis.example", 1, &error));
        cr_assert_eq(error.status, HLK_E_NOMEM);
    }
}

Test(resolve, says_when_there_is_no_descriptor)
{
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    struct hlk_resolve *lookup = hlk_resolve_start("redis.example", 1, &error);
    setrlimit(RLIMIT_NOFILE, &before);
    cr_assert_null(lookup);
    cr_assert_eq(error.status, HLK_E_OS);
    cr_assert_not_null(strstr(error.text, "Too many open files"));
}

Test(resolve, that_hangs_repeatedly_takes_only_so_many_threads)
{
    enum { MOST = 16 };
    struct hlk_resolve *lookups[MOST];
    for (int i = 0; i < MOST; i++)
        lookups[i] = start(hangs, "redis.example");
    cr_assert_null(hlk_resolve_start("redis.example", 7000, &error));
    cr_assert_eq(error.status, HLK_E_CONNECT);
    cr_assert_not_null(strstr(error.text, "redis.example"), "%s", error.text);
    for (int i = 0; i < MOST; i++)
        sem_post(&go_on);
    for (int i = 0; i < MOST; i++) {
        freeaddrinfo(take(lookups[i]));
        hlk_resolve_drop(lookups[i]);
    }
    struct hlk_resolve *again = start(finds, "redis.example");
    freeaddrinfo(take(again));
    hlk_resolve_drop(again);
}

static int hangs_for_some(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    return (strncmp(host, "slow", 4) == 0 ? hangs : finds)(host, service, hints, out);
}

Test(resolve, of_hanging_names_leaves_other_names_their_threads)
{
    enum { NAMES = 8, MOST = 16 };
    struct hlk_resolve *lookups[NAMES][MOST];
    for (int name = 0; name < NAMES; name++)
        for (int i = 0; i < MOST; i++) {
            char host[16];
            snprintf(host, sizeof host, "slow%d.example", name);
            lookups[name][i] = start(hangs_for_some, host);
        }
    struct hlk_resolve *other = start(hangs_for_some, "redis.example");
    freeaddrinfo(take(other));
    hlk_resolve_drop(other);
    for (int i = 0; i < NAMES * MOST; i++)
        sem_post(&go_on);
    for (int i = 0; i < NAMES * MOST; i++) {
        freeaddrinfo(take(lookups[i / MOST][i % MOST]));
        hlk_resolve_drop(lookups[i / MOST][i % MOST]);
    }
}

/* The hanging threads are the parent's. */
Test(resolve, hung_in_the_parent_leaves_the_child_all_threads)
{
    enum { MOST = 16 };
    struct hlk_resolve *lookups[MOST];
    for (int i = 0; i < MOST; i++)
        lookups[i] = start(hangs, "redis.example");
    pid_t child = fork();
    if (child == 0) {
        hlk_resolve_play(finds);
        struct hlk_resolve *lookup = hlk_resolve_start("redis.example", 7000, &error);
        hlk_resolve_drop(lookup); /* otherwise a leak if its thread was quick, as valgrind shows */
        _exit(lookup ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    for (int i = 0; i < MOST; i++)
        sem_post(&go_on);
    for (int i = 0; i < MOST; i++) {
        freeaddrinfo(take(lookups[i]));
        hlk_resolve_drop(lookups[i]);
    }
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
