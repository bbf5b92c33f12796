/* fixture.h - the fixture of the unit tests: a client's entry table with all that it borrows, on a connection whose
 * other end is the test's (peer.h). The clock is played and there are no threads: the test fires alarms, runs ticks and
 * has events reported. */
#ifndef HLK_TEST_UNIT_FIXTURE_H
#define HLK_TEST_UNIT_FIXTURE_H

#include "hasplock/client.h"
#include "kinds/kind.h"
#include "lease/holder.h"
#include "lease/entry_table.h"
#include "lease/watchdog.h"
#include "peer.h"

#include <stdio.h>

struct unit {
    struct peer peer;
    struct hlk_node node;
    struct hlk_events events;
    struct hlk_log log;
    struct hlk_entry_table table;
    char reported[4096];            /* "LOST a;" and so on, in order */
    char why[128];              /* of the last */
};

extern struct unit unit;

void unit_on_event(const struct hlk_event *event, void *ctx);
void unit_open(void);

/* Does the events thread's work. Returns the events that were reported since the last call. */
const char *unit_tells(void);

/* Asserts that no entry is left: an entry that is left has a reference that was not dropped. */
void unit_close(void);
struct hlk_entry *unit_entry(const char *name);
int64_t unit_now_ms(void);

#endif
