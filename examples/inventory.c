/* inventory.c - two shops sell from one stock, and never more than there is. inventory [URL]
 *
 * The stock is a semaphore: an item is a permit. An order takes all of its items or none, in one step, so two orders
 * cannot both get the last one. What is taken is gone: there is no lease. An order that fails later gives its items
 * back. Use it to let few through to the table of orders; that table has the last word on what was sold. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define STOCK 10
#define SHOPS 2
#define ORDERS 9 /* of each shop: 3 items, 2, 1, 3, ... */

struct shop {
    hlk_client *client;
    pthread_t thread;
    int sold, refused;
    bool failed;
};

static void *sell(void *arg)
{
    struct shop *shop = arg;
    hlk_semaphore *stock = hlk_semaphore_create(shop->client, "stock:42");
    for (int i = 0; i < ORDERS && !shop->failed; i++) {
        int items = 3 - i % 3;
        switch (hlk_semaphore_acquire(stock, items, HLK_NOWAIT)) {
        case HLK_OK:
            shop->sold += items;
            break;
        case HLK_BUSY: /* fewer are left; a smaller order may still be met */
            shop->refused++;
            break;
        default:
            fprintf(stderr, "%s\n", hlk_last_error());
            shop->failed = true;
        }
    }
    hlk_semaphore_destroy(stock);
    return NULL;
}

/* Old stock is sold out, and new stock has come. */
static bool stock_up(hlk_client *client)
{
    int64_t before;
    hlk_semaphore *stock = hlk_semaphore_create(client, "stock:42");
    bool done = hlk_semaphore_drain(stock, &before) == HLK_OK && hlk_semaphore_add(stock, STOCK) == HLK_OK;
    hlk_semaphore_destroy(stock);
    return done;
}

static bool open_shops(struct shop shops[SHOPS], const char *url)
{
    bool open = true;
    for (int i = 0; i < SHOPS; i++) {
        shops[i] = (struct shop){ 0 };
        open = hlk_client_open(&shops[i].client, url, NULL) == HLK_OK && open;
    }
    return open && stock_up(shops[0].client);
}

int main(int argc, char **argv)
{
    struct shop shops[SHOPS];
    int64_t left = -1;
    int sold = 0;
    bool failed = !open_shops(shops, argc > 1 ? argv[1] : "local:");
    if (failed)
        fprintf(stderr, "%s\n", hlk_last_error());
    for (int i = 0; i < SHOPS && !failed; i++)
        failed = pthread_create(&shops[i].thread, NULL, sell, &shops[i]) != 0;
    for (int i = 0; i < SHOPS && !failed; i++) {
        pthread_join(shops[i].thread, NULL);
        sold += shops[i].sold;
        failed = shops[i].failed;
    }
    hlk_semaphore *stock = failed ? NULL : hlk_semaphore_create(shops[0].client, "stock:42");
    if (hlk_semaphore_available(stock, &left) == HLK_OK)
        printf("%d sold, %lld left\n", sold, (long long)left);
    hlk_semaphore_destroy(stock);
    for (int i = 0; i < SHOPS; i++)
        hlk_client_close(shops[i].client);
    return !failed && sold == STOCK && left == 0 ? 0 : 1;
}
