/* peer.h - talks to the Java peer (Peer.java has the protocol): one session with real Redisson clients.
 *
 *     struct peer *java = peer_open();
 *     peer_ask(java, "- open A %s", hlk_test_url(server));
 *     peer_tell(java, "A.1 lock %s", name);                       starts a wait
 *     ...
 *     const struct answer *got = peer_answer(java, "A.1");        collects it
 *
 * An answer that does not come within WAIT_MS ends the test with a line on stderr. One thread per session.
 */
#ifndef HLK_TEST_PEER_H
#define HLK_TEST_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct answer {
    char    who[32], verb[32];
    char    text[128];              /* "ok", "true", "1", "!IllegalMonitorStateException" */
    int64_t began_us, ended_us;     /* on peer_now_us, in the Java thread */
    char    why[256];               /* an exception's message, else "" */
};

struct peer;

/* A session with the peer that HASPLOCK_PEER names. Closing ends its clients; what they hold stays until its lease. */
struct peer *peer_open(void);
void peer_close(struct peer *peer);     /* NULL is fine */

/* Sends one request. */
void peer_tell(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next answer of `who`. Valid until the 16th next. */
const struct answer *peer_answer(struct peer *peer, const char *who);

/* Both, for what does not block: the answer's text. */
const char *peer_ask(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True: `who` still owes an answer to all that has arrived here by now. */
bool peer_waits(struct peer *peer, const char *who);

/* us of CLOCK_MONOTONIC, the clock of the answers. */
int64_t peer_now_us(void);

#endif
