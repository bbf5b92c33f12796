/* status.c - the table of status codes: number, name, sentence. And the library's version. */
#include "hasplock/hasplock.h"

struct row {
    enum hlk_status status;
    const char *name, *text;
};

#define ROW(status, text)                                                                                              \
    {                                                                                                                  \
        status, #status, text                                                                                          \
    }

static const struct row table[] = {
    ROW(HLK_OK, "done"),
    ROW(HLK_BUSY, "held by somebody else, or not answered in time"),
    ROW(HLK_TIMEOUT, "not got when the wait was over"),
    ROW(HLK_INTERRUPTED, "the wait was cancelled or interrupted"),
    ROW(HLK_NOT_HOLDER, "the caller does not hold it"),
    ROW(HLK_LOST, "the caller held it and no longer does"),
    ROW(HLK_DEADLOCK, "granting it would make the caller wait for itself"),
    ROW(HLK_NOT_REPLICATED, "too few replicas acknowledged it in time; it is released"),
    ROW(HLK_BROKEN, "a party of the barrier left before all had arrived"),
    ROW(HLK_E_INVALID, "an argument is out of its range"),
    ROW(HLK_E_NOMEM, "no memory"),
    ROW(HLK_E_OS, "the system refused a descriptor, a thread or the like"),
    ROW(HLK_E_CONNECT, "the server cannot be reached"),
    ROW(HLK_E_AUTH, "wrong credentials, or a right is missing"),
    ROW(HLK_E_SERVER, "the server refused the request"),
    ROW(HLK_E_UNSURE, "sent and not answered in time: it may have happened"),
    ROW(HLK_E_FORKED, "this client belongs to the parent process"),
    ROW(HLK_E_CLOSED, "the client is being closed"),
};

static const struct row unknown = { HLK_OK, "HLK_UNKNOWN", "a status that this release does not know" };

static const struct row *status_find(enum hlk_status status)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].status == status)
            return &table[i];
    return &unknown;
}

const char *hlk_status_name(enum hlk_status status)
{
    return status_find(status)->name;
}

const char *hlk_status_text(enum hlk_status status)
{
    return status_find(status)->text;
}

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

const char *hlk_version(void)
{
    return VERSION(HLK_VERSION_MAJOR, HLK_VERSION_MINOR, HLK_VERSION_PATCH);
}
