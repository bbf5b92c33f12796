/* floor_conn.h - raw hiredis, one connection: the speed without any library in between.
 *
 * A connection blocks in read(2) for each reply, as hiredis does. With `spin` it first polls the socket for up to 60
 * us, without sched_yield, so only for one thread for each core. */
#ifndef BENCH_FLOOR_CONN_H
#define BENCH_FLOOR_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

struct floor_conn {
    redisContext *redis;
    bool spin;
};

struct floor_script {           /* loaded once per process: the server then knows it by its hash */
    const char *text;
    char sha[41];
};

struct floor_args {             /* argv and lengths of one command; the pointers are borrowed */
    int argc;
    const char *argv[224];
    size_t len[224];
};

int floor_connect(struct floor_conn *conn, int port, bool spin);
void floor_disconnect(struct floor_conn *conn);
int floor_load(struct floor_conn *conn, struct floor_script *script);

void floor_arg(struct floor_args *args, const char *text);

/* The caller frees the reply. NULL: the connection is broken. */
redisReply *floor_call(struct floor_conn *conn, struct floor_args *args);

/* Reads the next reply to what was sent before. */
redisReply *floor_read(struct floor_conn *conn);

#endif
