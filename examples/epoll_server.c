/* epoll_server.c - locks in a single-threaded epoll server: no thread blocks, no thread is added. epoll_server [URL]
 *
 * Twelve orders for three stock items come in at once. Orders for one item are served one at a time, on all hosts
 * together; those for other items are not held up. The holder of a lock is the order (owner.h), not the one thread. An
 * order holds its lock for as long as its sale takes; the loop serves the others meanwhile. Three lines tie the library
 * to the loop: see main. With a library for loops they are the same three: ev_server.c. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ORDERS 12
#define ITEMS 3
#define SALE_TAKES_NS 5000000

struct order {
    int number, item;
    int sale; /* a timer, instead of a payment service's socket */
    hlk_owner *owner;
    hlk_lock *stock;
};

static hlk_client *client;
static int loop;
static int in_stock[ITEMS] = { ORDERS, ORDERS, ORDERS }, selling[ITEMS];
static int open_orders, failed;

static void order_end(struct order *order, enum hlk_status status)
{
    if (status != HLK_OK) {
        fprintf(stderr, "order %d: %s\n", order->number, hlk_last_error());
        failed++;
    }
    hlk_lock_destroy(order->stock);
    hlk_owner_destroy(order->owner);
    open_orders--;
}

static void released(hlk_lock *stock, enum hlk_status status, void *order)
{
    (void)stock;
    order_end(order, status);
}

static void sale_begin(struct order *order)
{
    struct itimerspec takes = { .it_value = { .tv_nsec = SALE_TAKES_NS } };
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = order } };
    order->sale = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (order->sale < 0 || timerfd_settime(order->sale, 0, &takes, NULL) != 0 ||
        epoll_ctl(loop, EPOLL_CTL_ADD, order->sale, &event) != 0)
        abort();
    failed += selling[order->item]++ > 0; /* two at once: the lock prevents that */
}

static void sale_end(struct order *order)
{
    close(order->sale);
    selling[order->item]--;
    printf("order %d: item %d, %d left\n", order->number, order->item, --in_stock[order->item]);
    enum hlk_status status = hlk_lock_release_async(order->stock, released, order);
    if (status != HLK_OK) /* refused: `released` will not run */
        order_end(order, status);
}

static void locked(hlk_lock *stock, enum hlk_status status, void *order)
{
    (void)stock;
    if (status == HLK_OK)
        sale_begin(order);
    else
        order_end(order, status);
}

static void order_begin(struct order *order, int number)
{
    char label[32], name[32];
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts how = HLK_ACQUIRE_OPTS_INIT;
    order->number = number;
    order->item = number % ITEMS;
    snprintf(label, sizeof label, "order-%d", number);
    snprintf(name, sizeof name, "epoll:stock:%d", order->item);
    opts.owner = order->owner = hlk_owner_create(client, label);
    order->stock = hlk_lock_create(client, name, &opts);
    how.wait_ms = 10000;
    open_orders++;
    enum hlk_status status = hlk_lock_acquire_async(order->stock, &how, locked, order);
    if (status != HLK_OK)
        order_end(order, status);
}

int main(int argc, char **argv)
{
    static struct order orders[ORDERS];
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    copts.flags = HLK_OPEN_DISPATCH; /* the first */
    if (hlk_client_open(&client, argc > 1 ? argv[1] : "local:", &copts) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = client } };
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, hlk_client_fd(client), &event) != 0) /* the second */
        return 1;
    for (int i = 0; i < ORDERS; i++)
        order_begin(&orders[i], i);

    while (open_orders > 0 && epoll_wait(loop, &event, 1, -1) == 1)
        if (event.data.ptr == client)
            hlk_client_dispatch(client, 0); /* the third: completions run in here */
        else
            sale_end(event.data.ptr);

    close(loop);
    hlk_client_close(client);
    for (int item = 0; item < ITEMS; item++)
        failed += in_stock[item] != ORDERS - ORDERS / ITEMS;
    printf("%d orders, %d failed\n", ORDERS, failed);
    return failed != 0;
}
