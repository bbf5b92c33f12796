/* holder.h - a holder's name for messages. Ours are "hlk-<host>-<pid>-<random>:<hold>"; foreign ones stay as they
 * are. */
#ifndef HLK_CLI_HOLDER_H
#define HLK_CLI_HOLDER_H

#include "json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct holder {
    const char *written;    /* borrowed */
    bool ours;              /* then the next fields are set: */
    char host[256];
    int64_t pid, hold;
};

void holder_read(struct holder *holder, const char *written);
const char *holder_shown(const struct holder *holder, char *buf, size_t size);  /* "web-3 pid 4711 (hold 12)" */
/* What stands before "by" and one holder: "held"; by enum hlk_lock_kind also "held to write", "held to read" or, with
 * more holds than one, "held to read 3 times, once". Returns buf. */
const char *holder_held(int kind, int64_t count, char *buf, size_t size);
const char *holder_none(int kind);      /* "free", "not held to read", "not held to write" */
/* Adds the field holder, and for a holder of ours host, pid, hold. */
void holder_json(const struct holder *holder, struct json *json);
void holder_add_json(const char *written, struct json *json);

#endif
