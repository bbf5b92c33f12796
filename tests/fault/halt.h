/* halt.h - stops a thread before a function of the library, by the linker's --wrap. */
#ifndef HLK_TEST_HALT_H
#define HLK_TEST_HALT_H

#include "fixture.h"

#include <stdatomic.h>

extern atomic_int armed;    /* the place at which the next thread stops; 0: none */
extern atomic_int standing; /* a thread has stopped */
extern atomic_int going;    /* it may go on */

/* If `at` is armed, the first thread that calls this stops until go_on. `at` is the test program's number for the
 * place, from 1. */
void halt(int at);
void arm(int at);
void go_on(void);

#define WRAPPED(type, name, parameters)                                                                                \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters

/* How often a completion has run, and its last status. */
struct done {
    atomic_int runs;
    enum hlk_status status;
};

void remember(hlk_lock *lock, enum hlk_status status, void *ctx);

/* The argument of a thread that makes one call. */
struct call {
    hlk_lock *lock;
    hlk_cancel *cancel;
    enum hlk_status status;
    struct done done;
};

void *releases(void *arg);

#endif
