/* fenced_stock.c - a table that refuses the writer who comes too late. fenced_stock [URL]
 *
 * A lease lock cannot stop a process that stood still past its lease from waking up and writing. The table can: each
 * hold of a fenced lock has a token that is larger than all before, the row keeps the largest it has seen, and a write
 * with a smaller one changes nothing. A hold shows its token before it reads, so that what it has read stays true.
 *
 * The run is made twice, without the token and with it: A reads the stock, asks how much of its lease is left, and is
 * stopped just then, by SIGSTOP; B gets the lock and sells one; A wakes and writes what it had in mind. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOCK 10
#define LEASE_MS 1000 /* short, so that the run is: default 30 s */

struct seller {
    char name;
    bool fenced; /* does it use its token? */
    sqlite3 *db;
    hlk_client *client;
    hlk_lock *lock;
    long long token; /* of its hold, asked once: a lost hold has none any more */
    int left;        /* what it has read */
};

static bool sql(sqlite3 *db, const char *statement)
{
    return sqlite3_exec(db, statement, NULL, NULL, NULL) == SQLITE_OK;
}

static int read_left(sqlite3 *db)
{
    sqlite3_stmt *ask = NULL;
    int left = -1;
    if (sqlite3_prepare_v2(db, "SELECT n FROM stock", -1, &ask, NULL) == SQLITE_OK && sqlite3_step(ask) == SQLITE_ROW)
        left = sqlite3_column_int(ask, 0);
    sqlite3_finalize(ask);
    return left;
}

/* From here on every earlier hold is too late. */
static bool show_token(const struct seller *s)
{
    char statement[100];
    snprintf(statement, sizeof statement, "UPDATE stock SET token = %lld WHERE token < %lld", s->token, s->token);
    return !s->fenced || (sql(s->db, statement) && sqlite3_changes(s->db) == 1);
}

/* False: refused. One statement: nobody comes between the comparison and the write. */
static bool write_left(const struct seller *s, int left)
{
    char statement[100];
    if (s->fenced)
        snprintf(statement, sizeof statement, "UPDATE stock SET n = %d WHERE token = %lld", left, s->token);
    else
        snprintf(statement, sizeof statement, "UPDATE stock SET n = %d", left);
    return sql(s->db, statement) && sqlite3_changes(s->db) == 1;
}

static void on_log(int level, const char *line, void *ctx) /* the loss is part of the story, and told in it */
{
    (void)level, (void)line, (void)ctx;
}

/* Waits for the lock and reads the stock. */
static bool begin(struct seller *s, const char *url, const char *file)
{
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    copts.watchdog_ms = LEASE_MS;
    copts.log = on_log;
    opts.kind = HLK_LOCK_FENCED;
    if (sqlite3_open(file, &s->db) != SQLITE_OK || hlk_client_open(&s->client, url, &copts) != HLK_OK)
        return false;
    s->lock = hlk_lock_create(s->client, "fenced_stock", &opts);
    if (hlk_lock_acquire(s->lock, 10 * LEASE_MS) != HLK_OK)
        return false;
    s->token = hlk_lock_token(s->lock);
    if (!show_token(s))
        return false;
    s->left = read_left(s->db);
    printf("  %c has the lock, token %lld, reads %d\n", s->name, s->token, s->left);
    return s->left > 0;
}

static void end(struct seller *s)
{
    printf("  %c's release says %s\n", s->name, hlk_status_name(hlk_lock_release(s->lock)));
    hlk_lock_destroy(s->lock);
    hlk_client_close(s->client);
    sqlite3_close(s->db);
}

/* A process: exit code 0 when its late write happened, 1 when it was refused, 2 on a fault. */
static int be_a(const char *url, const char *file, bool fenced)
{
    struct seller a = { .name = 'A', .fenced = fenced };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!begin(&a, url, file))
        return 2;
    if (hlk_lock_left_ms(a.lock) < 100)
        return 2;
    printf("  A finds that it has time to write, and is stopped\n");
    fflush(stdout);
    raise(SIGSTOP);
    bool wrote = write_left(&a, a.left - 1);
    printf("  A wakes and writes %d: %s\n", a.left - 1, wrote ? "done, over B's sale" : "refused, B's token was seen");
    end(&a);
    fflush(stdout);
    return wrote ? 0 : 1;
}

/* A's exit code, or 2. */
static int run(const char *url, const char *file, bool fenced)
{
    struct seller b = { .name = 'B', .fenced = fenced };
    int status = 0;
    printf("%s the token:\n", fenced ? "With" : "Without");
    fflush(stdout);
    pid_t a = fork(); /* before this process has a client */
    if (a == 0)
        exit(be_a(url, file, fenced));
    if (a < 0 || waitpid(a, &status, WUNTRACED) != a || !WIFSTOPPED(status))
        return 2;
    bool sold = begin(&b, url, file) && write_left(&b, b.left - 1);
    if (sold)
        printf("  B writes %d\n", b.left - 1);
    end(&b);
    fflush(stdout);
    kill(a, SIGCONT);
    if (waitpid(a, &status, 0) != a || !WIFEXITED(status) || !sold)
        return 2;
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    char file[] = "/tmp/fenced_stock-XXXXXX", start[200];
    int fd = mkstemp(file), late[2] = { 2, 2 }, left[2] = { -1, -1 };
    if (fd < 0)
        return 2;
    close(fd);
    for (int fenced = 0; fenced < 2; fenced++) {
        sqlite3 *db = NULL;
        snprintf(start, sizeof start,
                 "DROP TABLE IF EXISTS stock; CREATE TABLE stock (n INTEGER, token INTEGER);"
                 "INSERT INTO stock VALUES (%d, 0)",
                 STOCK);
        bool made = sqlite3_open(file, &db) == SQLITE_OK && sql(db, start);
        sqlite3_close(db); /* a connection of SQLite's must not go through a fork */
        late[fenced] = made ? run(url, file, fenced) : 2;
        if (late[fenced] < 2 && sqlite3_open(file, &db) == SQLITE_OK) {
            left[fenced] = read_left(db);
            sqlite3_close(db);
        }
        if (late[fenced] == 2)
            fprintf(stderr, "%s\n", hlk_last_error());
        else
            printf("  %d sold, %d in stock: %s\n", 2 - late[fenced], left[fenced],
                   left[fenced] + 2 - late[fenced] == STOCK ? "right" : "wrong");
    }
    unlink(file);
    return late[0] == 0 && left[0] == STOCK - 1 && late[1] == 1 && left[1] == STOCK - 1 ? 0 : 1;
}
