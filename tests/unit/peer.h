/* peer.h - a shared connection whose other end is the test's: a pair of sockets within the process, no server, no
 * thread. The test reads and writes the bytes, one round at a time.
 *
 *     peer_open(&peer); peer_up(&peer);
 *     hlk_pipeline_send(peer.pipeline, &call, ...);
 *     cr_assert_str_eq(peer_hears(&peer), "...");
 *     peer_says(&peer, ":1\r\n");             read by the leader: peer_reads, or a waiting caller
 */
#ifndef HLK_TEST_PEER_H
#define HLK_TEST_PEER_H

#include "base/clock.h"
#include "net/pipeline_internal.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
    hlk_loop *loop;             /* never started */
    hlk_pipeline *pipeline;
    struct hlk_endpoint endpoint;
    struct hlk_greeting greeting;
    struct hlk_pipeline_owner owner;
    int fd;                     /* the other end; -1: down */
    char message_pending[65536];
    int64_t now_ns;
};

void peer_open(struct peer *p);
void peer_passes(struct peer *p, int64_t ms);

/* A new stream, as after a dial. The test sends the owner's first commands itself. */
void peer_up(struct peer *p);

/* A leader's round, when no caller leads. */
void peer_reads(struct peer *p);
void peer_says(struct peer *p, const char *bytes);
void peer_answers(struct peer *p, const char *bytes);

/* The bytes that were sent since the last call; "": none. */
const char *peer_hears(struct peer *p);

/* The connection ends, and the leader sees it. */
void peer_breaks(struct peer *p);
void peer_close(struct peer *p);
void peer_free(struct peer *p);

#endif
