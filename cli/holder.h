/* holder.h - who a holder is, for people: ours are written "hlk-<host>-<pid>-<random>:<hold>"; Java's stay as they are
 * written. */
#ifndef HLK_CLI_HOLDER_H
#define HLK_CLI_HOLDER_H

#include "json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct holder {
    const char *written;    /* borrowed */
    bool ours;              /* then: */
    char host[256];
    int64_t pid, hold;
};

void holder_read(struct holder *holder, const char *written);
const char *holder_shown(const struct holder *holder, char *buf, size_t size);  /* "web-3 pid 4711 (hold 12)" */
void holder_json(const struct holder *holder, struct json *json);   /* holder, and host, pid, hold when it is ours */

#endif
