/* exchange.h - one connection of its own for an examination, made as a client's is (net/dial) and then used by the
 * calling thread alone: it sends and waits. */
#ifndef HLK_DIAGNOSE_EXCHANGE_H
#define HLK_DIAGNOSE_EXCHANGE_H

#include "net/dial.h"
#include "net/tls.h"

/* How the other end is logged in to; NULL: not given. */
struct hlk_exchange_login {
    const char *username, *password;    /* override the URL's */
    struct hlk_credentials_source credentials;  /* what it points to is borrowed until close */
    struct hlk_tls_opts tls;            /* for a URL with TLS */
    int64_t reply_timeout_ms;
    bool is_sentinel;
};

struct hlk_exchange {
    struct hlk_endpoint endpoint;
    struct hlk_conn conn;
    struct hlk_buffer out;          /* commands that hlk_exchange_ask sends */
    unsigned due;                   /* how many they are */
    struct hlk_error error;
};

/* HLK_OK, HLK_E_INVALID, HLK_E_NOMEM with the error set. Close is to be called in any case. */
enum hlk_status hlk_exchange_init(struct hlk_exchange *exchange, const char *url,
                                  const struct hlk_exchange_login *login);
/* Another user, or the URL's when NULL. False: no memory. */
bool hlk_exchange_set_user(struct hlk_url *url, const char *username, const char *password);

/* A name is looked up, which a dial does too: by itself it can be timed. *addresses: how many it has. */
enum hlk_status hlk_exchange_look_up(struct hlk_exchange *exchange, unsigned *addresses);

/* Connects and logs in. HLK_OK, else error says why: HLK_E_CONNECT, HLK_E_AUTH, HLK_E_SERVER, HLK_E_OS, ... */
enum hlk_status hlk_exchange_open(struct hlk_exchange *exchange);
void hlk_exchange_close(struct hlk_exchange *exchange);

bool hlk_exchange_add(struct hlk_exchange *exchange, int argc, const char **argv);    /* false: no memory */

/* Sends what was added. replies[i] is the caller's; NULL after a fault: HLK_E_CONNECT when no byte came for
 * reply_timeout_ms or the connection broke. */
enum hlk_status hlk_exchange_ask(struct hlk_exchange *exchange, redisReply **replies);

/* The other end is a Unix socket, or an address of this host's loopback. */
bool hlk_exchange_is_local(const struct hlk_exchange *exchange);

#endif
