/* client.h - the composition root: what one open client is made of. */
#ifndef HLK_CLIENT_INNER_H
#define HLK_CLIENT_INNER_H

#include "base/self.h"
#include "hasplock/hasplock.h"
#include "lease/table.h"
#include "net/mux.h"
#include "script/undo.h"
#include "wait/cancel.h"
#include "wait/channel.h"

#define HLK_PATIENCE_MS 10000

struct hlk_wait_entry {                 /* whoever waits for a lock: told when the client is closed */
    struct hlk_list link;               /* under waits_mu */
    void (*wake)(struct hlk_wait_entry *entry);
};

struct hlk_client {
    atomic_int refs;                    /* the opener's, each handle's, owner's, cancel's */
    unsigned process;                   /* hlk_self_process() of its opener */
    atomic_bool closing;
    char id[HLK_FIELD_MAX - 24];
    struct hlk_endpoint endpoint;       /* set by open, then read-only, like the next ones */
    struct hlk_greeting greeting;
    int64_t patience_ms, reply_ms;
    atomic_bool warned_braces;
    bool dispatching;                   /* completions by hlk_client_dispatch */

    hlk_loop *loop;
    hlk_mux *mux;
    struct hlk_channels channels;
    struct hlk_undos undos;
    struct hlk_events events;
    struct hlk_table table;

    atomic_uint requests;               /* acquires on their way */
    struct hlk_self *_Atomic closer;    /* woken when there are none any more */

    struct hlk_mutex waits_mu;          /* rank WAITS; guards: */
    struct hlk_list waits;

    /* -1 without dispatch. What the user's loop polls: work_fd and the shared connection */
    int epoll_fd, work_fd;
    atomic_bool work_told;              /* work_fd is readable, or will be looked after by the running dispatch */
    _Atomic(struct hlk_self *) dispatcher;  /* runs completions now; or NULL */
    struct hlk_mutex ready_mu;          /* rank LEAF; guards: */
    struct hlk_list ready;              /*   completions for hlk_client_dispatch: hlk_job */
};

/* `given` (may be NULL) checked and completed; HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_client_read_opts(const struct hlk_client_opts *given, struct hlk_client_opts *opts);

/* At every public edge: HLK_OK, or HLK_E_FORKED / HLK_E_CLOSED with the thread's error set. */
enum hlk_status hlk_client_check(const hlk_client *client, const char *operation, const char *name);

void hlk_client_ref(hlk_client *client);
void hlk_client_unref(hlk_client *client);

/* A completion: on the events thread, or for the next dispatch. */
void hlk_client_complete(hlk_client *client, struct hlk_job *job);
void hlk_client_work(hlk_client *client);           /* dispatch is wanted: any thread */

void hlk_client_warn_braces(hlk_client *client, const char *name);  /* once */

void hlk_client_request_begins(hlk_client *client);
void hlk_client_request_ends(hlk_client *client);
void hlk_client_waits(hlk_client *client, struct hlk_wait_entry *entry);
void hlk_client_waits_no_more(hlk_client *client, struct hlk_wait_entry *entry);

#endif
