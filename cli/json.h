/* json.h - one flat JSON object as one line: what --json prints. Strings, whole numbers and yes/no are all we have to
 * say, so this is a writer of a few lines and no library. What does not fit is left out, and the object stays whole. */
#ifndef HLK_CLI_JSON_H
#define HLK_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    size_t len;
    char line[16384];       /* without NUL; a name of 512 control bytes takes 3 KiB of it */
};

void json_begin(struct json *json);
void json_string(struct json *json, const char *key, const char *value);   /* bytes that are not UTF-8 become U+FFFD */
void json_int(struct json *json, const char *key, int64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_time(struct json *json);  /* adds time_ms: now, in ms since 1970 */
void json_end(struct json *json);   /* closes the object and the line; then `line` is `len` bytes long */

#endif
