/* demo_stock.c - the stock in SQLite. With a write-ahead log readers never wait. There is no fsync, because the disk is
 * not the subject. A killed process leaves no partial transaction in either case. */
#include "demo_stock.h"

#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BUSY_PAUSE_NS 300000 /* between two checks of a busy file; SQLite's own pauses grow to 100 ms */
#define BUSY_TRIES 60000     /* about 20 s: enough for a slow machine */

struct demo_stock {
    sqlite3 *db;
    sqlite3_stmt *read, *write, *sale, *sales, *begin, *commit, *rollback;
    char error[200]; /* of the last failed call */
};

static int stock_busy(void *ctx, int tries)
{
    (void)ctx;
    nanosleep(&(struct timespec){ 0, BUSY_PAUSE_NS }, NULL);
    return tries < BUSY_TRIES;
}

static bool stock_exec(sqlite3 *db, const char *sql, char *error, size_t error_size)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    snprintf(error, error_size, "%s", sqlite3_errmsg(db));
    return false;
}

static sqlite3 *stock_connect(const char *path, int flags, char *error, size_t error_size)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        snprintf(error, error_size, "%s: %s", path, db ? sqlite3_errmsg(db) : "no memory");
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_handler(db, stock_busy, NULL);
    if (!stock_exec(db, "PRAGMA synchronous = OFF", error, error_size)) {
        sqlite3_close(db);
        return NULL;
    }
    return db;
}

bool demo_stock_make(const char *path, int items, char *error, size_t error_size)
{
    char sql[320];
    sqlite3 *db = stock_connect(path, SQLITE_OPEN_CREATE, error, error_size);
    if (!db)
        return false;
    snprintf(sql, sizeof sql,
             "PRAGMA journal_mode = WAL;"
             "CREATE TABLE stock (item TEXT PRIMARY KEY, left_over INTEGER NOT NULL);"
             "CREATE TABLE sale (id INTEGER PRIMARY KEY, item TEXT NOT NULL, seller INTEGER NOT NULL);"
             "INSERT INTO stock VALUES ('ticket', %d)",
             items);
    bool ok = stock_exec(db, sql, error, error_size);
    sqlite3_close(db);
    return ok;
}

struct demo_stock *demo_stock_open(const char *path, char *error, size_t error_size)
{
    struct demo_stock *stock = calloc(1, sizeof *stock);
    if (!stock) {
        snprintf(error, error_size, "no memory");
        return NULL;
    }
    stock->db = stock_connect(path, 0, error, error_size);
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } all[] = {
        { &stock->read, "SELECT left_over FROM stock WHERE item = 'ticket'" },
        { &stock->write, "UPDATE stock SET left_over = ?1 WHERE item = 'ticket'" },
        { &stock->sale, "INSERT INTO sale (item, seller) VALUES ('ticket', ?1)" },
        { &stock->sales, "SELECT count(*) FROM sale" },
        { &stock->begin, "BEGIN IMMEDIATE" },
        { &stock->commit, "COMMIT" },
        { &stock->rollback, "ROLLBACK" },
    };
    for (size_t i = 0; stock->db && i < sizeof all / sizeof all[0]; i++) {
        if (sqlite3_prepare_v2(stock->db, all[i].sql, -1, all[i].to, NULL) == SQLITE_OK)
            continue;
        snprintf(error, error_size, "%s: %s", path, sqlite3_errmsg(stock->db));
        demo_stock_close(stock);
        return NULL;
    }
    if (stock->db)
        return stock;
    demo_stock_close(stock);
    return NULL;
}

void demo_stock_close(struct demo_stock *stock)
{
    if (!stock)
        return;
    sqlite3_stmt *all[] = { stock->read,  stock->write,  stock->sale,    stock->sales,
                            stock->begin, stock->commit, stock->rollback };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(stock->db);
    free(stock);
}

static bool stock_fails(struct demo_stock *stock)
{
    snprintf(stock->error, sizeof stock->error, "%s", sqlite3_errmsg(stock->db));
    return false;
}

static bool stock_run(sqlite3_stmt *statement)
{
    int answer = sqlite3_step(statement);
    return sqlite3_reset(statement) == SQLITE_OK && answer == SQLITE_DONE;
}

static bool stock_ask(struct demo_stock *stock, sqlite3_stmt *statement, int *out)
{
    bool row = sqlite3_step(statement) == SQLITE_ROW;
    if (row)
        *out = sqlite3_column_int(statement, 0);
    return (sqlite3_reset(statement) == SQLITE_OK && row) || stock_fails(stock);
}

bool demo_stock_read(struct demo_stock *stock, int *left)
{
    return stock_ask(stock, stock->read, left);
}

bool demo_stock_sales(struct demo_stock *stock, int *sales)
{
    return stock_ask(stock, stock->sales, sales);
}

bool demo_stock_write(struct demo_stock *stock, int left, int row)
{
    sqlite3_bind_int(stock->write, 1, left);
    sqlite3_bind_int(stock->sale, 1, row);
    if (!stock_run(stock->begin))
        return stock_fails(stock);
    if (stock_run(stock->write) && stock_run(stock->sale) && stock_run(stock->commit))
        return true;
    stock_fails(stock);
    stock_run(stock->rollback);
    return false;
}

const char *demo_stock_error(const struct demo_stock *stock)
{
    return stock->error;
}
