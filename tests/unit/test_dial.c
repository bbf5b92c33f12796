/* A dial whose server says what no server should. It has no owner's greeting, as that of a subscriber connection. */
#include "net/dial.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    hlk_loop *loop;
    struct hlk_endpoint endpoint;
    struct hlk_dial dial;
    struct hlk_post start;
    struct hlk_error error;
    bool connected;
    sem_t done;
    int listener;
    const char *says;
    char path[64], dir[32];
    pthread_t thread;
} at;

static void on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    (void)ctx;
    at.connected = conn != NULL;
    if (conn)
        hlk_conn_reset(conn);
    if (error)
        at.error = *error;
    sem_post(&at.done);
}

static void start_dial(struct hlk_post *post)
{
    (void)post;
    hlk_dial_start(&at.dial);
}

static void *serve(void *arg)
{
    int fd = accept(at.listener, NULL, NULL);
    char heard[512];
    if (read(fd, heard, sizeof heard) > 0)
        (void)!send(fd, at.says, strlen(at.says), MSG_NOSIGNAL);
    while (read(fd, heard, sizeof heard) > 0)
        ;
    close(fd);
    return arg;
}

static void dial(const char *says)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char url[96];
    snprintf(at.dir, sizeof at.dir, "/tmp/hlk-dial-XXXXXX");
    cr_assert_not_null(mkdtemp(at.dir));
    snprintf(at.path, sizeof at.path, "%s/s", at.dir);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at.path);
    at.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(at.listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(at.listener, 1), 0);
    snprintf(url, sizeof url, "unix:%s", at.path);
    cr_assert_eq(hlk_url_parse(&at.endpoint.url, url, &at.error), HLK_OK, "%s", at.error.text);
    snprintf(at.endpoint.client_name, sizeof at.endpoint.client_name, "t");
    at.endpoint.reply_ms = 5000;
    at.says = says;
    sem_init(&at.done, 0, 0);
    cr_assert_eq(pthread_create(&at.thread, NULL, serve, NULL), 0);
    cr_assert_eq(hlk_loop_create(&at.loop, &at.error), HLK_OK);
    hlk_dial_init(&at.dial, at.loop, &at.endpoint, NULL, on_dialled, NULL);
    cr_assert_eq(hlk_loop_start(at.loop, &at.error), HLK_OK);
    at.start.run = start_dial;
    hlk_loop_post(at.loop, &at.start);
    sem_wait(&at.done);
}

static void fini(void)
{
    pthread_join(at.thread, NULL);
    hlk_loop_stop(at.loop);
    hlk_loop_destroy(at.loop);
    hlk_url_fini(&at.endpoint.url);
    close(at.listener);
    unlink(at.path);
    rmdir(at.dir);
}

TestSuite(dial, .fini = fini, .timeout = 20);

Test(dial, that_is_answered_is_a_connection)
{
    dial("$8\r\nhasplock\r\n+OK\r\n"); /* to PING and CLIENT SETNAME */
    cr_assert(at.connected, "%s", at.error.text);
}

Test(dial, that_gets_an_answer_too_many_fails)
{
    dial("$8\r\nhasplock\r\n+OK\r\n+OK\r\n");
    cr_assert_not(at.connected);
    cr_assert_eq(at.error.status, HLK_E_CONNECT);
    cr_assert_not_null(strstr(at.error.text, "nobody asked"), "%s", at.error.text);
}
