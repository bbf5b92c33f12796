/* demo_stock.h - the stock: a SQLite file, used as any program would use it.
 *
 *     stock  one row: how many items are left
 *     sale   one row for each order that was promised an item
 *
 * A sale reads the stock in one transaction, does its work, and writes the new stock and the sale in another. SQLite
 * keeps each transaction whole, but not the two together. That is why a lock is needed. */
#ifndef HLK_DEMO_STOCK_H
#define HLK_DEMO_STOCK_H

#include <stdbool.h>
#include <stddef.h>

struct demo_stock;                      /* one connection; one thread at a time */

/* Makes the file with `items` in stock. Each function here fills `error` when it fails. */
bool demo_stock_make(const char *path, int items, char *error, size_t error_size);

/* NULL: see error. */
struct demo_stock *demo_stock_open(const char *path, char *error, size_t error_size);
void demo_stock_close(struct demo_stock *stock);        /* NULL is fine */

bool demo_stock_read(struct demo_stock *stock, int *left);
bool demo_stock_write(struct demo_stock *stock, int left, int row);     /* and one sale: both or neither */
bool demo_stock_sales(struct demo_stock *stock, int *sales);
const char *demo_stock_error(const struct demo_stock *stock);   /* of the last failed call */

#endif
