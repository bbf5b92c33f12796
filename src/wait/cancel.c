#include "wait/cancel.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void free_cancel(struct hlk_cancel *cancel)
{
    HLK_DEBUG_ASSERT(atomic_load(&cancel->refs) == 0 && hlk_list_empty(&cancel->waits));
    hlk_client *client = cancel->client;
    void (*unref_client)(hlk_client *) = cancel->unref_client;
    int old = hlk_nocancel_begin();
    close(cancel->fd);
    hlk_nocancel_end(old);
    hlk_mutex_fini(&cancel->mu);
    hlk_mem_free(cancel);
    unref_client(client);
}

static void wake_all(struct hlk_cancel *cancel)
{
    hlk_loop_assert_here(cancel->loop);
    hlk_mutex_lock(&cancel->mu);
    for (struct hlk_list *n = cancel->waits.next; n != &cancel->waits; n = n->next) {
        struct hlk_cancel_wait *wait = HLK_CONTAINER(n, struct hlk_cancel_wait, link);
        wait->wake(wait);
    }
    hlk_mutex_unlock(&cancel->mu);
}

/* The write may be old, with a reset after it. So only the flag counts, and it is checked after the write was read. A
 * trigger that sets the flag later writes again. */
static void on_written(struct hlk_watch *watch, unsigned events)
{
    (void)events;
    struct hlk_cancel *cancel = HLK_CONTAINER(watch, struct hlk_cancel, watch);
    hlk_loop_assert_here(cancel->loop);
    uint64_t drained;
    ssize_t ignored = read(cancel->fd, &drained, sizeof drained);
    (void)ignored;
    if (atomic_load(&cancel->triggered))
        wake_all(cancel);
}

static void cancel_on_end(struct hlk_post *post)
{
    struct hlk_cancel *cancel = HLK_CONTAINER(post, struct hlk_cancel, end);
    hlk_loop_assert_here(cancel->loop);
    hlk_loop_unwatch(cancel->loop, &cancel->watch);
    free_cancel(cancel);
}

struct hlk_cancel *hlk_cancel_make(hlk_loop *loop, hlk_client *client, void (*unref_client)(hlk_client *),
                                   struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(loop && unref_client);
    struct hlk_cancel *cancel = hlk_mem_zalloc(sizeof *cancel);
    if (!cancel) {
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory");
        return NULL;
    }
    cancel->watch.ready = on_written;
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel->fd < 0) {
        (void)hlk_error_set(error, HLK_E_OS, "%s", strerror(errno));
        hlk_mem_free(cancel);
        return NULL;
    }
    atomic_init(&cancel->refs, 1);
    cancel->process = hlk_thread_process();
    cancel->loop = loop;
    cancel->client = client;
    cancel->unref_client = unref_client;
    hlk_mutex_init(&cancel->mu, HLK_RANK_CANCEL);
    hlk_list_init(&cancel->waits);
    cancel->end.run = cancel_on_end;
    if (hlk_loop_watch(loop, &cancel->watch, cancel->fd, EPOLLIN, error) == HLK_OK)
        return cancel;
    close(cancel->fd);
    hlk_mutex_fini(&cancel->mu);
    hlk_mem_free(cancel);
    return NULL;
}

static void cancel_unref(struct hlk_cancel *cancel)
{
    HLK_DEBUG_ASSERT(atomic_load(&cancel->refs) > 0);
    if (atomic_fetch_sub(&cancel->refs, 1) != 1)
        return;
    if (!hlk_loop_try_post(cancel->loop, &cancel->end))
        free_cancel(cancel);
}

void hlk_cancel_destroy(hlk_cancel *cancel)
{
    if (cancel && cancel->process == hlk_thread_process())
        cancel_unref(cancel);
}

void hlk_cancel_trigger(hlk_cancel *cancel)
{
    if (!cancel || atomic_load(&cancel->triggered) || cancel->process != hlk_thread_process_in_handler())
        return;
    int saved = errno;
    uint64_t one = 1;
    if (!atomic_exchange(&cancel->triggered, 1)) { /* only the thread that changes the flag writes */
        int old = hlk_nocancel_begin();
        ssize_t ignored = write(cancel->fd, &one, sizeof one);
        (void)ignored;
        hlk_nocancel_end(old);
    }
    errno = saved;
}

void hlk_cancel_reset(hlk_cancel *cancel)
{
    if (!cancel || cancel->process != hlk_thread_process())
        return;
    atomic_store(&cancel->triggered, 0);
}

int hlk_cancel_triggered(const hlk_cancel *cancel)
{
    return cancel ? atomic_load(&cancel->triggered) : 0;
}

/* A trigger between the check and the registration is not missed: it sets the flag before the loop walks the list. */
bool hlk_cancel_join(struct hlk_cancel *cancel, struct hlk_cancel_wait *wait)
{
    HLK_DEBUG_ASSERT(wait->wake && !hlk_list_linked(&wait->link));
    hlk_mutex_lock(&cancel->mu);
    bool joined = !atomic_load(&cancel->triggered);
    if (joined) {
        hlk_list_push_back(&cancel->waits, &wait->link);
        atomic_fetch_add(&cancel->refs, 1);
    }
    hlk_mutex_unlock(&cancel->mu);
    return joined;
}

void hlk_cancel_leave(struct hlk_cancel *cancel, struct hlk_cancel_wait *wait)
{
    if (!cancel)
        return;
    hlk_mutex_lock(&cancel->mu);
    bool joined = hlk_list_linked(&wait->link);
    hlk_list_remove(&wait->link);
    hlk_mutex_unlock(&cancel->mu);
    if (joined)
        cancel_unref(cancel);
}
