/* quorum_fixture.h - five masters that know nothing of each other, their own views, and a client of all of them. */
#ifndef HLK_TEST_QUORUM_FIXTURE_H
#define HLK_TEST_QUORUM_FIXTURE_H

#include "support/fixture.h"

enum { MASTERS = 5, MAJORITY = 3 };

/* An option for a client with a short watchdog. Without it each master has a twentieth of the watchdog's time for an
 * answer, which is too short on a busy machine. */
#define PATIENT "&node_timeout_ms=1000"

extern struct server *masters[MASTERS];
extern struct proxy *proxies[MASTERS];      /* of a test that was begun with STAGE_PROXY */
extern redisContext *views[MASTERS];

void quorum_begin(unsigned flags);          /* of server.h, and STAGE_PROXY */
void quorum_end(void);                      /* destroys what the next ones made; nothing may be left anywhere */

/* A client of the first n, connected to all that are there, unless it is opened lazily. NULL: fixture_opts(). */
hlk_client *quorum_open(unsigned n, const struct hlk_client_opts *opts);
/* The same by a redlock:// URL, for servers that have just started. options: more of them, as in "&ttl_ms=2000"; or
 * "". */
hlk_client *quorum_open_url(unsigned n, const char *options, const struct hlk_client_opts *opts);
hlk_client *quorum_open_url_at_once(unsigned n, const char *options, const struct hlk_client_opts *opts); /* as it is */
void quorum_close(hlk_client *client);      /* before quorum_end does */
hlk_lock *quorum_lock(hlk_client *client, const char *name, const struct hlk_lock_opts *opts);
/* HLK_QUORUM_OPTS_INIT, for servers that have just started; events are recorded by the client. */
struct hlk_quorum_opts quorum_opts(void);
hlk_quorum *quorum_make(hlk_client *client, const char *name, const struct hlk_quorum_opts *opts);
void quorum_destroy(hlk_quorum *quorum);    /* before quorum_end does */
/* A client of three masters, by proxies, has read all that master i has answered: another lock needs its next answer,
 * and has been released everywhere. */
void quorum_read(hlk_client *client, int i);

unsigned quorum_keys(const char *name);     /* masters that run and have the key */
void quorum_forget_view(int i);             /* that server is gone, or stands still */

#endif
