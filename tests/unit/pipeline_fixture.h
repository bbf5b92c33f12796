/* pipeline_fixture.h - calls on the shared connection of peer.h: with a completion, and of callers that wait. */
#ifndef HLK_TEST_UNIT_PIPELINE_FIXTURE_H
#define HLK_TEST_UNIT_PIPELINE_FIXTURE_H

#include "net/pipeline_internal.h"
#include "peer.h"

extern struct peer peer;

void calls_begin(void);
void calls_end(void);

struct asked {
    struct hlk_call call;
    int ends;
    enum hlk_call_end end;
    long long answer;
    const char *then; /* sent by the completion */
    struct hlk_call next;
};

void on_done(struct hlk_call *call);
enum hlk_status ask(struct asked *asked, const char *bytes);

/* A caller that waits. There are no threads here, so it never sleeps and is never woken. */
struct caller {
    struct hlk_thread self;
    struct hlk_call call;
};

void call(struct caller *c, const char *bytes);
bool answered(struct caller *c);

#endif
