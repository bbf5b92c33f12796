/* error.h - the thread's last error. It is written once, where the cause is known, and passed up untouched.
 *
 * The text is begun where the cause is found (net, script) and completed at the public edge (api, client). Lower
 * layers pass theirs in a struct hlk_error; hlk_last_set copies it to the thread. The text that is replaced may be an
 * argument. Both setters keep errno, end a text that is too long with "...", and treat text from outside as
 * hlk_text_add_shown does. */
#ifndef HLK_BASE_ERROR_H
#define HLK_BASE_ERROR_H

#include "hasplock/status.h"

#define HLK_ERROR_TEXT 480

struct hlk_error {
    enum hlk_status status;             /* HLK_OK: none */
    char text[HLK_ERROR_TEXT];          /* for people, no newline, no secret */
};

/* Fills *error (may be NULL) and returns status. */
enum hlk_status hlk_error_set(struct hlk_error *error, enum hlk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the calling thread's hlk_last_error/hlk_last_status and returns status. Never allocates. An error of a call that
 * makes a handle begins with "create " or "open"; the thread's last one is kept for hlk_last_null. */
enum hlk_status hlk_last_set(enum hlk_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For a call on a handle that is NULL: sets "operation: what is NULL", and the last creation that failed in this
 * thread, which mostly is why. Returns HLK_E_INVALID. */
enum hlk_status hlk_last_null(const char *operation, const char *what);

#endif
