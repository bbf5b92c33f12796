/* What a client of several masters has of a holder, when that holder ends. No master is reached. */
#include "client.h"
#include "handle/handle.h"
#include "quorum/hold.h"
#include "quorum/lock.h"

#include <criterion/criterion.h>
#include <semaphore.h>

static sem_t blocked, go;

static void block(struct hlk_post *post)
{
    (void)post;
    sem_post(&blocked);
    sem_wait(&go);
}

static struct hlk_post block_post = { .run = block };

static hlk_client *client;
static hlk_lock *lock;

static void begin(void)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.flags = HLK_OPEN_LAZY;
    cr_assert_eq(hlk_client_open(&client, "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", &opts), HLK_OK, "%s",
                 hlk_last_error());
    lock = hlk_lock_create(client, "invoice:42", NULL);
    sem_init(&blocked, 0, 0);
    sem_init(&go, 0, 0);
}

static void end(void)
{
    hlk_lock_destroy(lock);
    hlk_client_close(client);
}

TestSuite(quorum_hold, .init = begin, .fini = end, .timeout = 20);

/* Its last call has returned, and the loop is about to free what it had of another lock. */
Test(quorum_hold, is_not_orphaned_when_it_is_being_freed)
{
    atomic_uint holds = 0;
    const struct hlk_holder holder = { .id = 7, .holds = &holds };
    struct hlk_quorum *quorum = hlk_quorum_enter(lock, holder, true);
    cr_assert_not_null(quorum);
    hlk_loop_post(client->loop, &block_post);
    sem_wait(&blocked);
    hlk_quorum_leave(quorum);
    cr_assert_eq(atomic_load(&quorum->refs), 0);
    hlk_quorum_orphan(quorum->all, holder.id);
    cr_assert_eq(atomic_load(&quorum->refs), 0);
    cr_assert_not(quorum->orphaned);
    sem_post(&go);
}

Test(quorum_hold, is_orphaned_while_a_call_uses_it)
{
    atomic_uint holds = 0;
    const struct hlk_holder holder = { .id = 7, .holds = &holds };
    struct hlk_quorum *quorum = hlk_quorum_enter(lock, holder, true);
    hlk_quorum_orphan(quorum->all, holder.id);
    cr_assert(quorum->orphaned);
    cr_assert_null(quorum->holder.holds);
    hlk_quorum_leave(quorum);
}
