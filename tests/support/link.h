/* link.h - one connection through the proxy: client on one side, server on the other, requests and replies in between.
 * Internal to proxy.c. All functions are called with the proxy's mutex held. */
#ifndef HLK_TEST_LINK_H
#define HLK_TEST_LINK_H

#include "support/proxy.h"

#include <poll.h>

struct bytes { char *at; size_t len, room; };

struct unit {                       /* one request or reply in the proxy */
    struct unit *next;
    int64_t due_ns;                 /* not before */
    enum proxy_fault fault;         /* a request's */
    size_t replies;                 /* a request's: how many replies it gets */
    bool confirmation;              /* a reply's: of SUBSCRIBE */
    struct bytes bytes;
};

struct units { struct unit *first, **end; };

struct pending {                    /* a request that was sent to the server and has no reply yet */
    struct pending *next;
    size_t replies;
    enum proxy_fault fault;
};

struct flood { const char *head, *body; int64_t gap_ns; bool lasts; };

struct harm {                       /* the settings of the proxy, and what it has seen */
    const char *upstream;           /* path of the server's socket */
    bool freeze, freeze_subscribers, drop_messages, hold_confirmations, forget;
    int64_t to_server_ns, to_client_ns;
    enum proxy_fault fault;         /* armed */
    enum proxy_filter filter;
    uint64_t k;
    bool struck;
    struct flood flood;             /* PROXY_FLOOD's */
    uint64_t counts[3], messages;
    char **seen;                    /* arguments of every request, blanks between */
    size_t seen_len, seen_room;
};

struct link {
    struct link *next;
    int client, upstream;           /* -1: closed, or not opened yet */
    bool upstream_gone;
    struct bytes from_client, from_server, to_client, to_server;
    struct units requests, replies;
    struct pending *pending, **pending_end;
    bool held;                      /* its first request waits for proxy_deliver */
    bool silent;                    /* a reply was swallowed: the client gets nothing any more */
    bool delivering;                /* proxy_deliver waits for it */
    bool subscribed;                /* has sent SUBSCRIBE */
    const struct flood *flood;      /* what its client gets from now on; NULL: what the server says */
    int64_t flood_due_ns;
    bool dead;                      /* to be freed by the next sweep */
    size_t poll_client, poll_upstream;  /* places in this round's poll set; 0: not in it */
};

struct link *link_create(int client);
void link_free(struct link *link);

/* Reads what `set` says is there (after poll), and moves along what may go now. */
void link_pump(struct link *link, struct harm *harm, const struct pollfd *set, int64_t now_ns);

/* The held request may go, with what follows it, or alone; and a held reply. */
void link_deliver(struct link *link, bool first_only);

/* No byte may pass. */
bool link_frozen(const struct link *link, const struct harm *harm);

/* Makes *due_ns earlier if something delayed is due before. What was due at the last link_pump, at `pumped_ns`, and is
 * still here, waits for a call and not for a time. */
void link_soonest(const struct link *link, int64_t pumped_ns, int64_t *due_ns);

#endif
