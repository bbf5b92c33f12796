/* The two halves of a read/write lock. All else is done by the locks that they are, and by src/kinds/format_rw.c. */
#include <hasplock/rwlock.h>

#include "base/mem.h"
#include "base/opts.h"
#include "client.h"

struct hlk_rwlock {
    hlk_lock *read, *write;
};

HLK_OPTS_NO_TAIL(struct hlk_lock_opts, permits);

hlk_rwlock *hlk_rwlock_create(hlk_client *client, const char *name, const struct hlk_lock_opts *given)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    if (given && (!hlk_opts_copy(&opts, sizeof opts, given, given->size) || opts.kind != HLK_LOCK_PLAIN)) {
        (void)hlk_last_set(HLK_E_INVALID, "create read/write lock: %s",
                           opts.kind ? "opts.kind is not 0" : "options of this size are not known");
        return NULL;
    }
    hlk_rwlock *rwlock = hlk_mem_zalloc(sizeof *rwlock);
    if (!rwlock) {
        (void)hlk_last_set(HLK_E_NOMEM, "create read/write lock: no memory");
        return NULL;
    }
    opts.kind = HLK_LOCK_READ;
    rwlock->read = hlk_lock_create(client, name, &opts);
    opts.kind = HLK_LOCK_WRITE;
    rwlock->write = rwlock->read ? hlk_lock_create(client, name, &opts) : NULL;
    if (!rwlock->write) { /* the error is that of hlk_lock_create: destroying sets none */
        hlk_rwlock_destroy(rwlock);
        return NULL;
    }
    return rwlock;
}

void hlk_rwlock_destroy(hlk_rwlock *rwlock)
{
    if (!rwlock)
        return;
    hlk_lock_destroy(rwlock->read);
    hlk_lock_destroy(rwlock->write);
    hlk_mem_free(rwlock);
}

hlk_lock *hlk_rwlock_read(const hlk_rwlock *rwlock)
{
    return rwlock ? rwlock->read : NULL;
}

hlk_lock *hlk_rwlock_write(const hlk_rwlock *rwlock)
{
    return rwlock ? rwlock->write : NULL;
}
