/* A dial to a server with wrong replies. It sends no greeting, like the one of a subscriber connection. */
#include "net/dial.h"

#include "base/mem.h"

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
    char message_pending[512];
    if (read(fd, message_pending, sizeof message_pending) > 0)
        (void)!send(fd, at.says, strlen(at.says), MSG_NOSIGNAL);
    while (read(fd, message_pending, sizeof message_pending) > 0)
        ;
    close(fd);
    return arg;
}

static void dial_as(const char *user, const char *password, const char *says)
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
    at.endpoint.url.username = hlk_mem_strdup(user);
    at.endpoint.url.password = hlk_mem_strdup(password);
    snprintf(at.endpoint.client_name, sizeof at.endpoint.client_name, "t");
    at.endpoint.reply_timeout_ms = 5000;
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

static void dial(const char *says)
{
    dial_as(NULL, NULL, says);
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
    dial("$8\r\nhasplock\r\n+OK\r\n"); /* replies to PING and CLIENT SETNAME */
    cr_assert(at.connected, "%s", at.error.text);
}

Test(dial, that_gets_an_answer_too_many_fails)
{
    dial("$8\r\nhasplock\r\n+OK\r\n+OK\r\n");
    cr_assert_not(at.connected);
    cr_assert_eq(at.error.status, HLK_E_CONNECT);
    cr_assert_not_null(strstr(at.error.text, "without a command"), "%s", at.error.text);
}

/* --- the password: of a reply to AUTH only the error code is shown --- */

static void refuses_auth(const char *says, enum hlk_status status, const char *reported)
{
    dial_as("joe", "s3cr3t", says);
    cr_assert_not(at.connected);
    cr_assert_eq(at.error.status, status, "%s", at.error.text);
    cr_assert_null(strstr(at.error.text, "s3cr3t"), "%s", at.error.text);
    cr_assert_null(strstr(at.error.text, "joe"), "%s", at.error.text);
    cr_assert_not_null(strstr(at.error.text, reported), "%s", at.error.text);
}

/* rename-command AUTH "" */
Test(dial, hides_arguments_of_auth_that_the_server_shows)
{
    refuses_auth("-ERR unknown command `AUTH`, with args beginning with: `joe`, `s3cr3t`, \r\n", HLK_E_SERVER, "ERR");
}

Test(dial, hides_a_password_that_the_server_shows_as_a_code)
{
    refuses_auth("-s3cr3t\r\n", HLK_E_SERVER, "AUTH");
}

Test(dial, whose_server_takes_nobody_in_now_shows_no_password)
{
    refuses_auth("-LOADING joe s3cr3t\r\n", HLK_E_CONNECT, "LOADING");
}

Test(dial, whose_credentials_are_wrong_says_so_in_our_words)
{
    refuses_auth("-WRONGPASS invalid username-password pair s3cr3t\r\n", HLK_E_AUTH,
                 "WRONGPASS (wrong user or password)");
}
