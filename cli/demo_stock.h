/* demo_stock.h - the stock: a SQLite file that any program would use like this.
 *
 *     stock  one row: how many items are left
 *     sale   one row per order that was promised an item
 *
 * A sale reads the stock in one transaction, thinks, and writes the new stock and the sale in another. That is what
 * makes a lock necessary: SQLite keeps each transaction whole, but nobody keeps the two together. */
#ifndef HLK_CLI_DEMO_STOCK_H
#define HLK_CLI_DEMO_STOCK_H

#include <stdbool.h>
#include <stddef.h>

struct demo_stock;                      /* one connection; one thread at a time */

/* Makes the file with `items` in stock. On a fault `error` is filled, like in each call here. */
bool demo_stock_make(const char *path, int items, char *error, size_t error_size);

/* NULL: see error. */
struct demo_stock *demo_stock_open(const char *path, char *error, size_t error_size);
void demo_stock_close(struct demo_stock *stock);        /* NULL is fine */

bool demo_stock_read(struct demo_stock *stock, int *left);
bool demo_stock_write(struct demo_stock *stock, int left, int row);     /* and one sale, both or none */
bool demo_stock_sales(struct demo_stock *stock, int *sales);
const char *demo_stock_error(const struct demo_stock *stock);   /* of the last failed call */

#endif
