/* kind.c - see kind.h. */
#include "kind.h"

#include "holder.h"
#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

bool kind_is_given(const struct options *options)
{
    return options->semaphore || options_lock(options).kind != HLK_LOCK_PLAIN;
}

int kind_find(hlk_client *client, const struct options *options, struct hlk_lock_found *found)
{
    *found = (struct hlk_lock_found)HLK_LOCK_FOUND_INIT;
    found->kind = options_lock(options).kind;
    if (!kind_is_given(options) && hlk_lock_find(client, options->name, found) != HLK_OK)
        return say_fault();
    return 0;
}

int kind_of_lock(const struct hlk_lock_found *found)
{
    return found->kind >= HLK_LOCK_PLAIN && found->kind <= HLK_LOCK_PERMIT ? found->kind : HLK_LOCK_PLAIN;
}

bool kind_is_permits(int kind)
{
    return kind == HLK_LOCK_PERMIT || kind == HLK_FOUND_SEMAPHORE;
}

bool kind_is_number(int kind)
{
    return kind == HLK_FOUND_LATCH || kind == HLK_FOUND_NUMBER;
}

const char *kind_word(int kind)
{
    switch (kind) {
    case HLK_LOCK_PLAIN:
        return "plain";
    case HLK_LOCK_FAIR:
        return "fair";
    case HLK_LOCK_STRING:
        return "string";
    case HLK_LOCK_READ:
        return "read";
    case HLK_LOCK_WRITE:
        return "write";
    case HLK_LOCK_PERMIT:
    case HLK_FOUND_SEMAPHORE:
        return "semaphore";
    case HLK_FOUND_LATCH:
        return "latch";
    case HLK_FOUND_BARRIER:
        return "barrier";
    case HLK_FOUND_CONDITION:
        return "condition";
    case HLK_FOUND_NUMBER:
        return "number";
    default:
        return NULL;
    }
}

/* Behind the free permits: those that are held, if a lease says by whom. */
static const char *permits_held(int64_t count, int64_t number, char *buf, size_t size)
{
    int at = snprintf(buf, size, "%" PRId64 " permit%s free, ", number, number == 1 ? "" : "s");
    if (count == 0)
        snprintf(buf + at, size - (size_t)at, "none held with a lease");
    else
        snprintf(buf + at, size - (size_t)at, "%" PRId64 " held with a lease%s", count, count == 1 ? "" : ", one");
    return buf;
}

const char *kind_held(int kind, int64_t count, int64_t number, char *buf, size_t size)
{
    if (kind_is_permits(kind))
        return permits_held(count, number, buf, size);
    if (kind == HLK_FOUND_LATCH)
        snprintf(buf, size, "latch, count %" PRId64, number);
    else if (kind == HLK_FOUND_NUMBER)
        snprintf(buf, size, "number %" PRId64 ": a latch, a semaphore, or other data", number);
    else
        holder_held(kind, count, buf, size);
    return buf;
}

const char *kind_waiting(int kind, int64_t waiting, char *buf, size_t size)
{
    snprintf(buf, size, "%" PRId64 " wait%s at the %s", waiting, waiting == 1 ? "s" : "",
             kind == HLK_FOUND_BARRIER ? "barrier" : "condition");
    return buf;
}

int kind_refuse_string(void)
{
    say(SAY_ERROR, "error",
        "a string, which may be a lock of another library or other data: --string takes it for a lock; nothing was "
        "changed");
    return EX_SOFTWARE;
}
