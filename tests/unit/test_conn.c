/* How much of what a server sends one event reads. The server is the other end of a pair of sockets. */
#include "net/conn.h"

#include "net/tls.h"

#include <criterion/criterion.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECORD = 16384 };

static struct {
    struct hlk_conn conn;
    struct hlk_tls_context *context;
    struct hlk_error error;
    int server;
} at;

static void init(void)
{
    int ends[2];
    struct hlk_tls_opts none = { .ca_file = NULL };
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert(hlk_conn_adopt(&at.conn, ends[0]));
    at.server = ends[1];
    cr_assert_not_null(at.context = hlk_tls_context_create(&none));
    at.conn.tls = hlk_tls_create(at.context, "127.0.0.1", &at.error);
    cr_assert_not_null(at.conn.tls, "%s", at.error.text);
}

static void fini(void)
{
    hlk_conn_reset(&at.conn);
    hlk_tls_context_destroy(at.context);
    close(at.server);
}

TestSuite(conn, .init = init, .fini = fini, .timeout = 20);

/* Records of HelloRequest messages, each of 4 zero bytes. During a handshake a client has to ignore them, however many
 * there are (RFC 5246, 7.4.1.1). Returns how many bytes the socket took. */
static int send_hello_requests(int records)
{
    static const char record[5 + RECORD] = { 22, 3, 3, RECORD >> 8, RECORD & 255 };
    int sent = 0;
    while (records-- > 0 && send(at.server, record, sizeof record, MSG_NOSIGNAL) == (ssize_t)sizeof record)
        sent += (int)sizeof record;
    return sent;
}

static int unread(void)
{
    int bytes = -1;
    cr_assert_eq(ioctl(at.conn.fd, FIONREAD, &bytes), 0);
    return bytes;
}

/* Shows: S28 */
Test(conn, a_handshake_reads_once_for_each_event)
{
    bool blocked;
    cr_assert_eq(hlk_conn_handshake(&at.conn, &blocked, &at.error), 0, "%s", at.error.text);
    int sent = send_hello_requests(4);
    cr_assert_gt(sent, 2 * RECORD);
    for (int round = 0; round < 2; round++) {
        int before = unread();
        cr_assert_eq(hlk_conn_handshake(&at.conn, &blocked, &at.error), 0, "%s", at.error.text);
        cr_assert_not(blocked);
        cr_assert_lt(unread(), before);
        cr_assert_gt(unread(), 0);
    }
}
