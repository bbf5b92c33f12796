/* multilock_plan.h - what an acquire of a multilock does next. A blocked thread (multilock/multilock_acquire.c) does
 * it, or completions (multilock/multilock_async.c). The plan itself only gives members back. */
#ifndef HLK_MULTILOCK_MULTILOCK_PLAN_H
#define HLK_MULTILOCK_MULTILOCK_PLAN_H

#include "multilock/multilock.h"

enum hlk_multilock_todo {
    HLK_MULTILOCK_TRY,      /* try once each of those that are not held, all at once: hlk_multilock_plan_tried */
    HLK_MULTILOCK_NEXT,     /* acquire the first of those, with hlk_multilock_plan_opts: hlk_multilock_plan_acquired */
    HLK_MULTILOCK_COMPLETE, /* all are held: extend what lacks some of its lease: hlk_multilock_plan_completed */
    HLK_MULTILOCK_DONE      /* plan->error: the outcome. HLK_OK: all are held, else none */
};

struct hlk_multilock_plan {
    const struct hlk_members *members;
    struct hlk_thread *self; /* the holder of members that threads hold */
    struct hlk_acquire_opts opts;
    int64_t deadline_ms; /* INT64_MAX: none */
    size_t count;
    size_t held;  /* so many of `order` are */
    bool slice;   /* the wait for the next one ends before the caller's */
    bool waited;  /* for one of those that are held */
    bool one_by_one;
    unsigned random;
    struct hlk_error error;
    hlk_lock *first; /* waited for while none was held; the others are only tried then. NULL: none was */
    hlk_lock *order[HLK_MULTILOCK_MAX]; /* `first`, if there is one; then by names */
};

enum hlk_multilock_todo hlk_multilock_plan_start(struct hlk_multilock_plan *plan, const hlk_lock *multilock,
                                                 const struct hlk_acquire_opts *opts, struct hlk_thread *self);

/* status[0] is that of order[held], and so on; why: that of all (acquire/outcome.h). */
enum hlk_multilock_todo hlk_multilock_plan_tried(struct hlk_multilock_plan *plan, const enum hlk_status *status,
                                                 const struct hlk_error *why);
/* For order[held], which is waited for from now on, or only tried once (wait_ms 0). */
void hlk_multilock_plan_opts(struct hlk_multilock_plan *plan, struct hlk_acquire_opts *opts);
enum hlk_multilock_todo hlk_multilock_plan_acquired(struct hlk_multilock_plan *plan, enum hlk_status status,
                                                    const char *why);
/* What is left of the caller's wait_ms. */
int64_t hlk_multilock_plan_left_ms(const struct hlk_multilock_plan *plan);
/* The lease that order[i] is short of. 0: it has it all. < 0: it is lost. */
int64_t hlk_multilock_plan_lacks(const struct hlk_multilock_plan *plan, size_t i);
enum hlk_multilock_todo hlk_multilock_plan_completed(struct hlk_multilock_plan *plan, enum hlk_status status,
                                                     const char *why);

/* Does not wait: what is not answered is repeated in the background. Without memory for that, the lease runs out. */
void hlk_multilock_plan_give_back(const struct hlk_multilock_plan *plan, hlk_lock *member);
void hlk_multilock_plan_give_all_back(struct hlk_multilock_plan *plan);

#endif
