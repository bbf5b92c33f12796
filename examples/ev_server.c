/* ev_server.c - locks in a single-threaded libev server: no thread is blocked, no thread is added. ev_server [URL]
 *
 * Each line on stdin is an order for a stock item ("9"). Orders for one item are served one at a time, on all hosts
 * together; those for other items are not held up. Who holds a lock is the order (owner.h), for the one thread here is
 * the holder of nothing. Three lines tie the library to the loop: see main. */
#include <hasplock/hasplock.h>

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESERVE_TAKES_S 0.005

struct order {
    ev_timer work;
    hlk_owner *owner;
    hlk_lock *stock;
    char item[32];
    int number;
};

static struct {
    struct ev_loop *loop;
    hlk_client *client;
    ev_io dispatch, input;
    char line[256];
    size_t filled;
    int orders, open, failed;
} server;

static void order_end(struct order *order, enum hlk_status status)
{
    printf("order %d for item %s: %s\n", order->number, order->item, status == HLK_OK ? "reserved" : hlk_last_error());
    server.failed += status != HLK_OK;
    hlk_lock_destroy(order->stock);
    hlk_owner_destroy(order->owner);
    free(order);
    if (--server.open == 0 && !ev_is_active(&server.input))
        ev_break(server.loop, EVBREAK_ALL);
}

static void released(hlk_lock *stock, enum hlk_status status, void *order)
{
    (void)stock;
    order_end(order, status);
}

static void reserved(struct ev_loop *loop, ev_timer *work, int events)
{
    (void)loop;
    (void)events;
    struct order *order = work->data;
    enum hlk_status status = hlk_lock_release_async(order->stock, released, order);
    if (status != HLK_OK) /* refused, so `released` will not run */
        order_end(order, status);
}

static void locked(hlk_lock *stock, enum hlk_status status, void *ctx)
{
    (void)stock;
    struct order *order = ctx;
    if (status != HLK_OK) {
        order_end(order, status);
        return;
    }
    ev_timer_init(&order->work, reserved, RESERVE_TAKES_S, 0.);
    order->work.data = order;
    ev_timer_start(server.loop, &order->work);
}

static void order_begin(const char *item)
{
    struct order *order = calloc(1, sizeof *order);
    if (!order)
        abort();
    char name[48];
    snprintf(order->item, sizeof order->item, "%.31s", item);
    snprintf(name, sizeof name, "stock:%s", order->item);
    order->number = ++server.orders;
    server.open++;

    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = order->owner = hlk_owner_create(server.client, order->item);
    order->stock = hlk_lock_create(server.client, name, &opts);
    struct hlk_acquire_opts how = HLK_ACQUIRE_OPTS_INIT;
    how.wait_ms = 10000;
    enum hlk_status status = hlk_lock_acquire_async(order->stock, &how, locked, order);
    if (status != HLK_OK)
        order_end(order, status);
}

static void input_end(void)
{
    ev_io_stop(server.loop, &server.input);
    if (server.open == 0)
        ev_break(server.loop, EVBREAK_ALL);
}

static void input_ready(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    ssize_t got = read(watcher->fd, server.line + server.filled, sizeof server.line - 1 - server.filled);
    if (got <= 0) {
        input_end();
        return;
    }
    server.filled += (size_t)got;
    server.line[server.filled] = '\0';
    char *line = server.line, *end;
    while ((end = strchr(line, '\n'))) {
        *end = '\0';
        order_begin(line);
        line = end + 1;
    }
    server.filled = strlen(line);
    memmove(server.line, line, server.filled);
    if (server.filled == sizeof server.line - 1) /* no item is that long */
        server.filled = 0;
}

static void client_ready(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    hlk_client_dispatch(watcher->data, 0); /* the third: completions run in here */
}

int main(int argc, char **argv)
{
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    copts.flags = HLK_OPEN_DISPATCH; /* the first */
    if (hlk_client_open(&server.client, argc > 1 ? argv[1] : "local:", &copts) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    server.loop = ev_default_loop(0);
    ev_io_init(&server.dispatch, client_ready, hlk_client_fd(server.client), EV_READ); /* the second */
    server.dispatch.data = server.client;
    ev_io_start(server.loop, &server.dispatch);

    ev_io_init(&server.input, input_ready, STDIN_FILENO, EV_READ);
    ev_io_start(server.loop, &server.input);
    ev_run(server.loop, 0);

    ev_io_stop(server.loop, &server.dispatch);
    hlk_client_close(server.client);
    ev_loop_destroy(server.loop);
    printf("%d orders, %d failed\n", server.orders, server.failed);
    return server.failed != 0;
}
