/* demo_picture.h - the picture of the two phases: the same few milliseconds without and with the lock, the whole run,
 * the killed holder and the stopped one. */
#ifndef HLK_DEMO_PICTURE_H
#define HLK_DEMO_PICTURE_H

#include "demo_report.h"

#include <stdio.h>

/* False: no memory, or `out` cannot be written (errno). */
bool demo_picture_write(FILE *out, const struct demo_run *without, const struct demo_result *without_result,
                        const struct demo_run *with, const struct demo_result *with_result);

#endif
