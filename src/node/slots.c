#include "node/slots.h"

#include "base/debug.h"

#include <stdlib.h>
#include <string.h>

/* CRC-16/XMODEM: polynomial 0x1021, from 0. By halves of a byte: 16 entries are in the cache, 256 often are not. */
static uint16_t crc16(const char *bytes, size_t len)
{
    static const uint16_t table[16] = { 0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef };
    unsigned crc = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)bytes[i];
        crc = (crc << 4 ^ table[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ table[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)crc;
}

unsigned hlk_slot_of(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    if (open) {
        size_t rest = len - (size_t)(open + 1 - key);
        const char *close = memchr(open + 1, '}', rest);
        if (close && close != open + 1)
            return crc16(open + 1, (size_t)(close - open - 1)) % HLK_SLOTS;
    }
    return crc16(key, len) % HLK_SLOTS;
}

static bool set_address(struct hlk_address *to, const char *host, size_t len, long long port)
{
    if (len >= sizeof to->host || port < 1 || port > 65535 || memchr(host, '\0', len))
        return false;
    if (len == 1 && *host == '?') /* the server does not know its own name */
        len = 0;
    memcpy(to->host, host, len);
    to->host[len] = '\0';
    to->port = (int)port;
    return true;
}

bool hlk_slot_redirect_read(const char *words, unsigned *slot, struct hlk_address *to)
{
    char *end;
    size_t word = strncmp(words, "MOVED ", 6) == 0 ? 6 : strncmp(words, "ASK ", 4) == 0 ? 4 : 0;
    if (!word)
        return false;
    unsigned long number = strtoul(words + word, &end, 10);
    const char *colon = strrchr(words, ':');
    if (end == words + word || *end != ' ' || number >= HLK_SLOTS || !colon || colon < end)
        return false;
    *slot = (unsigned)number;
    return set_address(to, end + 1, (size_t)(colon - end - 1), strtol(colon + 1, NULL, 10));
}

/* [first, last, [host, port, ...], replicas...] */
static bool read_range(const redisReply *range, unsigned *first, unsigned *last, struct hlk_address *master)
{
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 || range->element[0]->type != REDIS_REPLY_INTEGER ||
        range->element[1]->type != REDIS_REPLY_INTEGER || range->element[2]->type != REDIS_REPLY_ARRAY ||
        range->element[2]->elements < 2)
        return false;
    const redisReply *host = range->element[2]->element[0], *port = range->element[2]->element[1];
    long long from = range->element[0]->integer, to = range->element[1]->integer;
    bool named = host->type == REDIS_REPLY_STRING;
    if ((!named && host->type != REDIS_REPLY_NIL) || port->type != REDIS_REPLY_INTEGER || from < 0 || to < from ||
        to >= HLK_SLOTS)
        return false;
    *first = (unsigned)from;
    *last = (unsigned)to;
    return set_address(master, named ? host->str : "", named ? host->len : 0, port->integer);
}

bool hlk_slots_read(const redisReply *reply, hlk_slot_range_fn *each, void *ctx)
{
    HLK_DEBUG_ASSERT(each);
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        unsigned first, last;
        struct hlk_address master;
        if (!read_range(reply->element[i], &first, &last, &master))
            return false;
        each(ctx, first, last, &master);
    }
    return true;
}

uint64_t hlk_slots_epoch(const redisReply *reply, bool *usable)
{
    static const char state[] = "cluster_state:fail", epoch[] = "cluster_current_epoch:";
    bool text = reply->type == REDIS_REPLY_STRING;
    *usable = !text || !strstr(reply->str, state);
    const char *at = text ? strstr(reply->str, epoch) : NULL;
    return at ? strtoull(at + sizeof epoch - 1, NULL, 10) : 0;
}
