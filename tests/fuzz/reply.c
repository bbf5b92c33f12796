/* Bytes from a server in pieces of any size: replies, or a broken connection. What is a reply is read as the library
 * reads it and freed. The first byte of the input chooses the size of the pieces. */
#include "net/reply.h"
#include "net/conn.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t count(const redisReply *reply, int depth)
{
    size_t n = 1;
    if (depth > HLK_REPLY_DEPTH)
        abort(); /* the guard let something through */
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        n += count(reply->element[i], depth + 1);
    return n;
}

/* False: the connection would be dropped here. */
static bool read_all(struct hlk_conn *conn)
{
    for (;;) {
        struct hlk_error error = { .status = HLK_OK };
        bool broken = false;
        redisReply *reply = hlk_conn_reply(conn, &broken, &error);
        if (broken && !*error.text)
            abort();
        if (!reply || broken) {
            if (reply)
                freeReplyObject(reply);
            return !broken;
        }
        if (count(reply, 0) > HLK_REPLY_ELEMENTS + 1 ||
            (hlk_reply_read(reply, &error) != HLK_REPLY_ANSWER && error.status == HLK_OK))
            abort();
        freeReplyObject(reply);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hlk_conn conn;
    if (size < 2)
        return 0;
    if (!hlk_conn_adopt(&conn, -1))
        abort();
    size_t piece = (size_t)data[0] * 64 + 1;
    for (size_t at = 1; at < size; at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        if (!hlk_resp_feed(conn.resp, (const char *)data + at, len) || !read_all(&conn))
            break;
    }
    hlk_conn_reset(&conn);
    return 0;
}
