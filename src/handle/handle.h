/* handle.h - a lock handle and an owner, internally. */
#ifndef HLK_HANDLE_HANDLE_H
#define HLK_HANDLE_HANDLE_H

#include "client.h"
#include "hasplock/async.h"
#include "kinds/kind.h"
#include "lease/entry_table.h"

#include <string.h>

struct hlk_owner {
    atomic_int refs;
    struct hlk_holder holder;           /* holder.holds points to holds */
    atomic_uint holds;
    hlk_client *client;
    char label[65];
};

/* What a lock over several servers does (quorum/lock.c), or one made of several locks (multilock.c). Calls have checked
 * their arguments. Nothing below the public functions knows that there are such locks. */
struct hlk_lock_group {
    /* NULL: hlk_lock_create can make such a lock; else why not. */
    const char *(*refuse)(const struct hlk_lock_opts *opts);
    enum hlk_status (*acquire)(hlk_lock *lock, const struct hlk_acquire_opts *opts);
    enum hlk_status (*acquire_async)(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                     hlk_done_fn *done, void *ctx);
    enum hlk_status (*release)(hlk_lock *lock);
    enum hlk_status (*release_async)(hlk_lock *lock, hlk_done_fn *done, void *ctx);
    enum hlk_status (*extend)(hlk_lock *lock, int64_t lease_ms);
    enum hlk_status (*query)(hlk_lock *lock, struct hlk_lock_state *out);   /* NULL: it cannot be queried, nor broken */
    enum hlk_status (*break_it)(hlk_lock *lock, const char *only, char holder[HLK_FIELD_MAX]);
    /* hlk_lock_list with checked options; the handle is for errors. NULL: of a multilock */
    enum hlk_status (*list)(hlk_lock *handle, struct hlk_list_opts *opts, hlk_list_fn *fn, void *ctx);
    enum hlk_status (*find)(hlk_lock *handle, struct hlk_lock_found *out);       /* the same of hlk_lock_find */
    void (*view)(const hlk_lock *lock, struct hlk_holder holder, struct hlk_view *view);
    void (*destroy)(hlk_lock *lock);    /* NULL: nothing more than for each lock */
};

/* Of a multilock: a handle on each member (hlk_lock_member_handle), in the order of their names. */
struct hlk_members {
    const struct hlk_lock_group *group;
    size_t count;
    hlk_lock *locks[];
};

/* What an acquire through a handle asks for, unless its options say otherwise. Read-only. */
struct hlk_defaults {
    atomic_int refs;                    /* a lock's, and those of the handles that multilocks have on it */
    int64_t lease_ms, max_hold_ms;
    int64_t token_floor;                /* of a fenced kind */
    int64_t number;                     /* of a kind that has one: how many may hold it; 0: as it was set */
    uint16_t backoff_min_ms, backoff_max_ms;    /* of polls; at most a minute */
    bool drops_number;                  /* HLK_PERMITS_DROP */
};

struct hlk_lock {
    struct hlk_handle handle;           /* its references: the user's, holds, waits */
    hlk_client *client;                 /* referenced, as entry is */
    struct hlk_entry *entry;            /* NULL: a group's, or each holder has one of its own (hlk_lock_entry) */
    struct hlk_holder holder;           /* id 0: the thread that calls */
    const struct hlk_kind *kind;
    struct hlk_defaults *defaults;      /* referenced */
    struct hlk_members *members;        /* of a multilock, whose kind, holder and client are those of its first member.
                                         * NULL: of one lock */
    atomic_bool forbidden;              /* the user lacks a right for a command whose answer nobody waits for
                                         * (hlk_lock_send_and_forget) */
    atomic_bool owned;                  /* the holder is an owner, referenced. Given back by destroy: holds keep none */
    char name[];                        /* the name, if entry is NULL */
};

/* Returns the same. */
struct hlk_defaults *hlk_defaults_ref(struct hlk_defaults *defaults);
void hlk_defaults_unref(struct hlk_defaults *defaults);     /* NULL is fine */

/* NULL: a lock on one server. */
static inline const struct hlk_lock_group *hlk_lock_group(const hlk_lock *lock)
{
    if (lock->members)
        return lock->members->group;
    return lock->client->topology ? lock->client->topology->locks : NULL;
}

/* NULL: it has none, or was destroyed. */
static inline hlk_owner *hlk_lock_owner(const hlk_lock *lock)
{
    return atomic_load(&lock->owned) ? HLK_CONTAINER(lock->holder.holds, struct hlk_owner, holds) : NULL;
}

static inline const char *hlk_lock_text(const hlk_lock *lock)
{
    return lock->entry ? hlk_entry_name(lock->entry) : lock->name;
}

static inline size_t hlk_lock_text_len(const hlk_lock *lock)
{
    return lock->entry ? hlk_entry_len(lock->entry) : strlen(lock->name);
}

/* Its length; 0: the name is refused, with the thread's error set. */
size_t hlk_lock_check_name(hlk_client *client, const char *operation, const char *name);
/* hlk_lock_create with checked arguments. NULL: no memory; the thread's error is not set. The second one makes no
 * entry. */
hlk_lock *hlk_lock_make(hlk_client *client, const char *name, size_t len, const struct hlk_lock_opts *opts);
hlk_lock *hlk_lock_make_without_entry(hlk_client *client, const char *name, size_t len,
                                      const struct hlk_lock_opts *opts);

/* handle.free of these */
void hlk_lock_free(struct hlk_handle *handle);

/* hlk_lock_create for the public function that makes a `what`. wrong: of its arguments, found already; or NULL. */
hlk_lock *hlk_lock_create_as(hlk_client *client, const char *what, const char *name, const struct hlk_lock_opts *opts,
                             const char *wrong);

/* The entry of this holder of a lock on one server. Mostly the handle's own, which it keeps. In the queue of a fair
 * lock each thread has a ticket of its own, so each has an entry of its own, with a hold id, a lease and renewals: then
 * this is a reference. hlk_lock_drop_entry must follow. NULL: no memory; the thread's error is set. */
struct hlk_entry *hlk_lock_entry(const hlk_lock *lock, const char *operation, uint64_t holder);
static inline void hlk_lock_drop_entry(const hlk_lock *lock, struct hlk_entry *e)
{
    if (e != lock->entry)
        hlk_entry_unref(e);
}
/* What is to be given back, for a caller whose handle may be gone by then (a completion may destroy it). NULL:
 * nothing. */
static inline struct hlk_entry *hlk_lock_entry_ref(const hlk_lock *lock, struct hlk_entry *e)
{
    return e != lock->entry ? e : NULL;
}
/* A holder that is one call: no other holder has its number, and it never outlives the call. */
struct hlk_holder hlk_lock_call_holder(const hlk_lock *lock);
/* Gives the owner back, as destroy does: holds keep none. */
void hlk_lock_disown(hlk_lock *lock);
/* The node that keeps the lock. */
struct hlk_node *hlk_lock_node(const hlk_lock *lock);
/* What this holder has of a lock on one server, or its queue, with a reference. NULL: nothing. */
struct hlk_entry *hlk_lock_find_entry(const hlk_lock *lock, uint64_t holder);
/* *view must be zeroed. */
void hlk_lock_view(const hlk_lock *lock, struct hlk_thread *self, struct hlk_view *view);
/* What the caller has, whose id is about to be told (hlk_entry_show_hold). */
void hlk_lock_view_exposing_id(const hlk_lock *lock, struct hlk_view *view);

/* The holder through this handle when `self` calls. */
static inline struct hlk_holder hlk_lock_holder(const hlk_lock *lock, struct hlk_thread *self)
{
    return lock->holder.id ? lock->holder : (struct hlk_holder){ self->id, &self->holds };
}

/* Sets the thread's error to `operation "name" at endpoint: text`. Returns status. */
enum hlk_status hlk_lock_fail(const hlk_lock *lock, const char *operation, enum hlk_status status,
                               const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* For a holder that holds nothing: HLK_NOT_HOLDER, or HLK_E_CLOSED when close has released it meanwhile. */
enum hlk_status hlk_lock_not_held(const hlk_lock *lock, const char *operation);

/* HLK_LOST of an acquire, with the reason. */
enum hlk_status hlk_lock_lost_before(const hlk_lock *lock, struct hlk_entry *e, uint64_t holder);

/* The label of the handle's owner, or "". The handle may be in destroy at the same time. */
void hlk_lock_owner_label(struct hlk_handle *handle, char *buf, size_t size);

/* Refuses NULL, a forked child and a closed client; called first by every call on a handle. The second one says why. */
enum hlk_status hlk_lock_refuse(const hlk_lock *lock, const char *operation);
static inline enum hlk_status hlk_lock_check(const hlk_lock *lock, const char *operation)
{
    return lock && hlk_client_is_usable(lock->client) ? HLK_OK : hlk_lock_refuse(lock, operation);
}
enum hlk_status hlk_lock_not_of_multilock(const hlk_lock *lock, const char *operation);      /* HLK_E_INVALID */

struct hlk_send_limits {           /* limits of a short command; all 0: reconnect_timeout_ms and reply_timeout_ms
                                    * apply */
    int64_t max_ms;
    struct hlk_cancel *cancel;  /* ends it: HLK_INTERRUPTED */
    bool once;                  /* not repeated on a new connection: HLK_E_UNSURE */
    struct hlk_error *error;    /* gets a fault, without the words of the operation; NULL: the thread's error does */
};

#endif
