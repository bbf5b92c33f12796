/* permit_fixture.h - leased permits: the entries of ann, bob, cid and dan, each a holder, and their line. */
#ifndef HLK_TEST_UNIT_PERMIT_FIXTURE_H
#define HLK_TEST_UNIT_PERMIT_FIXTURE_H

#include "entry_fixture.h"

enum {
    PERMIT_PASSES = 3,  /* local_passes */
    PERMIT_NUMBER = 8   /* of permits, which the line is for */
};

extern struct hlk_entry *entries[4], *line;

void permits_begin(void);
void permits_end(void);
/* A part of permits_begin: the line, the four holders and their entries, with references. */
void permits_open(void);

/* The helpers of entry_fixture.h are about `e`: from now on p's. Returns p. */
struct fake_waiter *of(struct fake_waiter *p);
/* With a reference. */
struct hlk_entry *entry_of_holder(uint64_t holder);
void leaves(struct fake_waiter *p);
/* p releases its hold. False: it went to Redis. */
bool passed(struct fake_waiter *p);
/* dan holds a permit, ann asks Redis, and bob and cid are in line. Returns dan's hold. */
uint64_t stand(void);

#endif
