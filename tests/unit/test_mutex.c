/* Ranks are checked in debug builds. Breaking them ends the process with a line that names both mutexes. */
#include "base/mutex.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hlk_mutex table, entry, other_session, pipeline;

static void init(void)
{
    hlk_mutex_init(&table, HLK_RANK_TABLE);
    hlk_mutex_init(&entry, HLK_RANK_ENTRY);
    hlk_mutex_init(&other_session, HLK_RANK_ENTRY);
    hlk_mutex_init(&pipeline, HLK_RANK_PIPELINE);
}

static void fini(void)
{
    hlk_mutex_fini(&table);
    hlk_mutex_fini(&entry);
    hlk_mutex_fini(&other_session);
    hlk_mutex_fini(&pipeline);
}

TestSuite(mutex, .init = init, .fini = fini, .timeout = 60);

static void *count(void *counter)
{
    for (int i = 0; i < 10000; i++) {
        hlk_mutex_lock(&entry);
        ++*(int *)counter;
        hlk_mutex_unlock(&entry);
    }
    return NULL;
}

Test(mutex, excludes)
{
    pthread_t threads[4];
    int counter = 0;
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count, &counter), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(counter, 40000);
}

Test(mutex, may_be_taken_in_rising_order_and_given_back_in_any)
{
    hlk_mutex_lock(&table);
    hlk_mutex_lock(&entry);
    hlk_mutex_lock(&pipeline);
    hlk_mutex_unlock(&entry);
    hlk_mutex_assert_held(&table);
    hlk_mutex_assert_held(&pipeline);
    hlk_mutex_unlock(&table);
    hlk_mutex_unlock(&pipeline);
    hlk_mutex_assert_none();
}

Test(mutex, a_lower_one_is_free_again_after_the_higher)
{
    hlk_mutex_lock(&pipeline);
    hlk_mutex_unlock(&pipeline);
    hlk_mutex_lock(&table);
    hlk_mutex_unlock(&table);
}

#ifdef HLK_DEBUG
/* Runs fn in a child. Returns the message of its abort, "" if it did not abort. */
static const char *last_words(void (*fn)(void))
{
    static char said[512];
    int out[2], status = 0;
    size_t len = 0;
    ssize_t n;
    cr_assert_eq(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        alarm(20); /* in case it deadlocks instead */
        dup2(out[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(out[1]);
    while ((n = read(out[0], said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)n;
    said[len] = '\0';
    close(out[0]);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? said : "";
}

static void take_lower(void)
{
    hlk_mutex_lock(&table);
    hlk_mutex_lock(&pipeline);
    hlk_mutex_lock(&entry);
}

Test(mutex, taking_a_lower_rank_aborts)
{
    char expected[256];
    snprintf(expected, sizeof expected,
             "hasplock: mutex \"entry\" (rank %d) taken out of order; this thread holds \"entry table\" (%d) "
             "\"pipeline\" (%d)\n",
             HLK_RANK_ENTRY, HLK_RANK_TABLE, HLK_RANK_PIPELINE);
    cr_assert_str_eq(last_words(take_lower), expected);
}

static void take_equal(void)
{
    hlk_mutex_lock(&entry);
    hlk_mutex_lock(&other_session);
}

Test(mutex, taking_two_of_one_rank_aborts)
{
    cr_assert_not_null(strstr(last_words(take_equal), "taken out of order"));
}

static void take_twice(void)
{
    hlk_mutex_lock(&entry);
    hlk_mutex_lock(&entry);
}

Test(mutex, taking_one_twice_aborts)
{
    cr_assert_not_null(strstr(last_words(take_twice), "taken out of order"));
}

static void *take_and_keep(void *unused)
{
    (void)unused;
    hlk_mutex_lock(&pipeline);
    return NULL;
}

static void give_back_anothers(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, take_and_keep, NULL);
    pthread_join(thread, NULL);
    hlk_mutex_unlock(&pipeline);
}

Test(mutex, unlocking_what_another_thread_holds_aborts)
{
    const char *said = last_words(give_back_anothers);
    cr_assert_not_null(strstr(said, "unlocked by a thread that does not hold it; this thread holds nothing"), "%s",
                       said);
}

static void claim_to_hold(void)
{
    hlk_mutex_lock(&table);
    hlk_mutex_assert_held(&entry);
}

Test(mutex, assert_held_aborts_when_it_is_not)
{
    cr_assert_not_null(strstr(last_words(claim_to_hold), "should be held here"));
}

static void claim_to_hold_none(void)
{
    hlk_mutex_lock(&table);
    hlk_mutex_assert_none();
}

Test(mutex, assert_none_aborts_when_there_is_one)
{
    cr_assert_not_null(strstr(last_words(claim_to_hold_none), "held before I/O or user code"));
}

static sem_t taken, enough;

static void *take_for_a_while(void *unused)
{
    (void)unused;
    hlk_mutex_lock(&pipeline);
    sem_post(&taken);
    sem_wait(&enough);
    hlk_mutex_unlock(&pipeline);
    return NULL;
}

Test(mutex, what_another_thread_holds_is_not_mine)
{
    pthread_t thread;
    sem_init(&taken, 0, 0);
    sem_init(&enough, 0, 0);
    cr_assert_eq(pthread_create(&thread, NULL, take_for_a_while, NULL), 0);
    sem_wait(&taken);
    hlk_mutex_lock(&table);
    hlk_mutex_unlock(&table);
    hlk_mutex_assert_none();
    sem_post(&enough);
    pthread_join(thread, NULL);
}
#endif
